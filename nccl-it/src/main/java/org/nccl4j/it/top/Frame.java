package org.nccl4j.it.top;

import java.util.List;
import org.nccl4j.api.observe.JobReport.UnreachedRoot;
import org.nccl4j.api.observe.LinkSpeeds;
import org.nccl4j.api.observe.flight.RankReport.Failover;
import org.nccl4j.api.observe.flight.RankReport.ProcessReport;

/**
 * The rates of all communicators over one interval, and their counts so far.
 *
 * @param millis end of the interval, ms since 1970
 * @param seconds length of the interval
 * @param communicators sorted by name
 * @param unreached roots of a job that gave no answer; their ranks may be missing
 */
record Frame(
    long millis,
    double seconds,
    List<CommunicatorRates> communicators,
    List<UnreachedRoot> unreached) {

  /** The same frame of a job of which some roots gave no answer. */
  Frame without(List<UnreachedRoot> roots) {
    return new Frame(millis, seconds, communicators, roots);
  }

  /**
   * A communicator.
   *
   * @param id tells communicators of one name apart
   * @param nRanks of the communicator, of which some may be unknown
   * @param ranks that are known, by rank
   * @param waits pairs of ranks that waited in most looks, the longest waits first
   * @param speeds of its links over networks in the last 5 to 10 seconds
   */
  record CommunicatorRates(
      String name,
      long id,
      int nRanks,
      List<RankRates> ranks,
      List<Wait> waits,
      LinkSpeeds speeds) {
    /** Mean of the ranks' operations a second. */
    double operations() {
      return ranks.stream().mapToDouble(RankRates::operations).average().orElse(0);
    }

    /** Mean of the ranks' bus bandwidth in GB/s, as nccl-tests define it. */
    double busGigabytes() {
      return ranks.stream().mapToDouble(RankRates::busGigabytes).average().orElse(0);
    }
  }

  /**
   * A rank.
   *
   * @param counts so far
   * @param operations ended a second
   * @param gigabytes algorithm bandwidth in GB/s
   * @param busGigabytes bus bandwidth in GB/s
   * @param waiting share of the looks, 0 to 1, in which its kernel waited for another rank
   * @param waitsFor the rank that it waited for last; -1 if for none
   * @param operation that it is in, else its last one; empty before the first
   * @param state in one word: runs, idle, waits, stopped, failed
   * @param links over which it has sent data
   * @param failovers replaced paths to other ranks, of the communicator's whole life
   * @param device as in a {@link org.nccl4j.api.observe.flight.RankReport}
   */
  record RankRates(
      int rank,
      ProcessReport process,
      Counts counts,
      double operations,
      double gigabytes,
      double busGigabytes,
      double waiting,
      int waitsFor,
      String operation,
      String state,
      List<LinkRates> links,
      List<Failover> failovers,
      String device) {}

  /**
   * A rank's connection with another.
   *
   * @param peer that rank; -1 for all ranks without an entry of their own
   * @param transport of the connection
   * @param via the network and the device; empty if it uses none
   * @param bytes sent since the communicator's creation
   * @param gigabytes sent in GB/s
   * @param receivedGigabytes received in GB/s, where that is counted
   */
  record LinkRates(
      int peer,
      String transport,
      String via,
      long bytes,
      double gigabytes,
      double receivedGigabytes) {
    /** The transport, the network and the device, such as "NET/Socket/eth0". */
    String way() {
      return via.isEmpty() ? transport : transport + "/" + via;
    }
  }

  /**
   * The counters of a rank in a communicator. None is less than in the frame before.
   *
   * @param operations ended since the communicator's creation
   * @param bytes of the operations that ended since the first frame began, as algorithm bandwidth
   *     counts them
   * @param busBytes the same as bus bandwidth counts them
   * @param waitSeconds time since the first frame began in which its kernel waited for another
   *     rank, by looks
   */
  record Counts(long operations, long bytes, long busBytes, double waitSeconds) {}

  /**
   * A rank that waited for another.
   *
   * @param share of the looks, 0 to 1
   */
  record Wait(int rank, int waitsFor, double share) {}
}
