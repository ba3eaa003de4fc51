package org.nccl4j.api.observe.flight;

import java.util.List;
import org.nccl4j.api.spi.Failovers;

/**
 * One rank's contents of a flight recorder.
 *
 * @param process where it is
 * @param communicator the same for all ranks of a communicator
 * @param name of the communicator
 * @param launched operations launched
 * @param ended operations ended, at least
 * @param upTo the highest number that the oldest operation that has not ended can have; where that
 *     is more than ended + 1, it is one of these
 * @param waitsFor the rank that its kernel waits for; -1 if for none
 * @param stillMillis for how long something was in progress and nothing ended, when it was last
 *     observed
 * @param observedMillis when that was, in ms since 1970
 * @param failed whether the communicator has failed there; the rest is then as it was before
 * @param front the oldest call that waits for the other ranks, where calls are compared
 * @param operations the last ones, oldest first
 * @param runs on record, oldest first
 * @param links its connections with other ranks
 * @param device {@link #HOST}, or the PCI address of the rank's GPU; empty if it is not known
 * @param replays what launches of CUDA graphs have repeated
 */
public record RankReport(
    ProcessReport process,
    long communicator,
    String name,
    int rank,
    int nRanks,
    long launched,
    long ended,
    long upTo,
    int waitsFor,
    long stillMillis,
    long observedMillis,
    boolean failed,
    Front front,
    List<Operation> operations,
    List<Run> runs,
    Links links,
    String device,
    Replays replays) {
  /** The device of ranks that use the host's memory and processors. */
  public static final String HOST = "host";

  /** Links that a rank records each for itself: the first ones that move data. */
  public static final int MOST_LINKS = 19;

  /** A report; control characters in texts are question marks, since terminals obey them. */
  public RankReport {
    name = printable(name);
    device = printable(device);
  }

  /**
   * Operations that launches of {@code CudaGraph}s have repeated so far. A graph's first launch is
   * the one that was captured, which is among the rank's launched operations.
   *
   * @param operations their number
   * @param bytes of their data, as algorithm bandwidth counts them
   * @param busBytes the same as bus bandwidth counts them
   */
  public record Replays(long operations, long bytes, long busBytes) {
    /** No graph was launched. */
    public static final Replays NONE = new Replays(0, 0, 0);
  }

  private static String printable(String text) {
    return text.replaceAll("\\p{Cc}", "?");
  }

  /**
   * A rank's connections with other ranks, as far as something is known of them.
   *
   * @param traffic data sent to each rank and received from it
   * @param failovers replaced paths, by the rank that they lead to
   */
  public record Links(List<Traffic> traffic, List<Failover> failovers) {
    /** Nothing is known. */
    public static final Links NONE = new Links(List.of(), List.of());
  }

  /**
   * Data sent to a rank and received from it. A transport that does not know when data arrive
   * counts them as arrived, so that its links have no time with data under way.
   *
   * @param peer the rank; -1 for the sum of ranks for which there was no room
   * @param transport its name, of which the first 12 bytes are kept
   * @param via the network and the device that this rank sends through, or if it only receives, the
   *     one that it receives by, such as "Socket/eth0", of which the first 24 bytes are kept; empty
   *     if it uses none
   * @param bytes sent so far
   * @param received bytes received so far, if they are counted
   * @param underWayMillis time in which data were under way to the rank, during operations
   * @param stalledMillis the part of that time in which none of them arrived
   * @param recent the last 5 to 10 seconds
   */
  public record Traffic(
      int peer,
      String transport,
      String via,
      long bytes,
      long received,
      long underWayMillis,
      long stalledMillis,
      Recent recent) {
    /** Peer of the entry that ranks without their own share. */
    static final int OTHERS = -1;

    /** Transport of that entry. */
    static final String SEVERAL = "several";

    /** Data sent, of which nothing else is known. */
    public Traffic(int peer, String transport, long bytes) {
      this(peer, transport, "", bytes, 0, 0, 0, Recent.NONE);
    }

    /** True for the sum of the links for which there was no room. */
    public boolean isOfSeveral() {
      return peer == OTHERS && transport.equals(SEVERAL);
    }

    /** The transport and the network, such as "NET/Socket": links of one kind can be compared. */
    public String kind() {
      return via.isEmpty() ? transport : transport + "/" + via.split("/")[0];
    }

    /** The transport, the network and the device, such as "NET/Socket/eth0". */
    public String way() {
      return via.isEmpty() ? transport : transport + "/" + via;
    }
  }

  /**
   * A link's traffic in some time.
   *
   * @param millis length of the time
   * @param bytes that arrived at the other rank, of all communicators that share the connection
   * @param underWayMillis time in which data were under way to the other rank, during operations
   * @param stalledMillis the part of that time in which none of them arrived
   * @param received bytes received from the other rank
   * @param roomMillis time in which there was room for more, during operations
   */
  public record Recent(
      long millis,
      long bytes,
      long underWayMillis,
      long stalledMillis,
      long received,
      long roomMillis) {
    /** No time. */
    public static final Recent NONE = new Recent(0, 0, 0, 0, 0, 0);

    /** The rest of the time after its beginning. */
    Recent since(Recent begin) {
      return new Recent(
          millis - begin.millis,
          bytes - begin.bytes,
          underWayMillis - begin.underWayMillis,
          stalledMillis - begin.stalledMillis,
          received - begin.received,
          roomMillis - begin.roomMillis);
    }
  }

  /**
   * The paths to a rank that broke and that others have replaced.
   *
   * @param peer the rank; -1 for the sum of ranks for which there was no room
   */
  public record Failover(int peer, Failovers what) {
    /**
     * The failovers in one clause.
     *
     * @param nowMillis ms since 1970
     */
    public String text(long nowMillis) {
      return "%d path%s to %s replaced, the last %.0f s ago%s, %d bytes sent again"
          .formatted(
              what.count(),
              what.count() == 1 ? "" : "s",
              peer < 0 ? "other ranks" : "rank " + peer,
              Math.max(0, nowMillis - what.lastMillis()) / 1000.0,
              what.path().isEmpty() ? "" : " by " + what.path(),
              what.bytesAgain());
    }
  }

  /**
   * A call that waits until all ranks have come to it.
   *
   * @param call its number among all such calls of its process; 0 if there is none
   * @param stream tells the streams of a process apart
   * @param stillMillis for how long it has been the oldest
   * @param number among all such calls of its communicator, the same on all ranks
   */
  public record Front(long call, long stream, long stillMillis, long number) {}

  /**
   * A process.
   *
   * @param state as the kernel names it, such as "S" (sleeps), "R" (runs), "T" (is stopped); empty
   *     if it is not known
   */
  public record ProcessReport(String host, long pid, String state) {
    /** A process; control characters in its host's name are question marks. */
    public ProcessReport {
      host = printable(host);
    }

    @Override
    public String toString() {
      return "process %d on %s".formatted(pid, host);
    }
  }

  /**
   * An operation.
   *
   * @param number of all that this rank launched, from 1
   * @param collective number among the collectives, from 1; of a send, how many there were before
   * @param label its name
   * @param root or peer
   * @param count elements, as in the call
   * @param bytes of so many elements
   * @param text for people
   */
  public record Operation(
      long number, long collective, String label, int root, long count, long bytes, String text) {
    /** True if all ranks call it, with the same arguments. */
    public boolean isCollective() {
      return org.nccl4j.operation.Operation.find(label)
          .filter(org.nccl4j.operation.Operation::isOfAllRanks)
          .isPresent();
    }
  }

  /**
   * Operations of one shape and count, launched one after the other.
   *
   * @param label name of the operation
   * @param bytes of the count of elements in one call
   * @param first number of the first, from 1
   * @param last number of the last so far
   */
  public record Run(String label, long bytes, long first, long last) {}

  /** The oldest operation that has not ended; null if all have, or it is too long ago. */
  public Operation current() {
    return operations.stream().filter(op -> op.number() == ended + 1).findFirst().orElse(null);
  }

  /** The newest operation that can be the oldest that has not ended; null as {@link #current}. */
  public Operation currentAtMost() {
    return operations.stream()
        .filter(op -> op.number() == Math.max(ended + 1, upTo))
        .findFirst()
        .orElse(null);
  }

  /** Returns the operation that the rank is in, for people; there must be a {@link #current}. */
  public String inOperation() {
    Operation first = current();
    return upTo <= first.number()
        ? "operation %d, %s".formatted(first.number(), first.text())
        : "one of operations %d to %d, the first of them %s"
            .formatted(first.number(), upTo, first.text());
  }

  /** The rank's call of a collective, by its number; null if it is not known. */
  public Operation collective(long number) {
    return operations.stream()
        .filter(op -> op.isCollective() && op.collective() == number)
        .findFirst()
        .orElse(null);
  }

  /** The last that was launched; null before the first. */
  public Operation last() {
    return operations.isEmpty() ? null : operations.get(operations.size() - 1);
  }
}
