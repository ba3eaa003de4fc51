package org.nccl4j.device.kernel;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.IntStream;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.os.AllowedCores;

/**
 * A communicator's facts for its kernels.
 *
 * @param name for messages and logs
 * @param rank this rank
 * @param nRanks all ranks
 * @param layout of every connection
 * @param sends connection to each rank, by rank; null at this rank and where there is none yet
 * @param recvs connection from each rank, by rank; null likewise
 * @param ring ranks in ring order, a list for each channel
 * @param trees this rank's places in the two trees; half of the data go through each
 * @param hosts ranks of each host, in the order of the rings and trees; hosts by their lowest rank
 * @param carried whether a proxy carries some connection of some rank; the same on all ranks
 * @param local cores of the ranks that share this machine's processor, this one's first
 * @param progress what a kernel that waits on the processor may do meanwhile
 * @param deadline longest that an operation may wait for another rank
 * @param nvls this rank's place in NVLS; null where it is not used
 * @param launching how its kernels are put to the device
 * @param connector makes the connections that there are not yet
 * @param singleCopy the steps that are read from the sender's buffer, on the host
 */
public record KernelCommunicatorSpec(
    String name,
    int rank,
    int nRanks,
    ConnectionLayout layout,
    List<Connection> sends,
    List<Connection> recvs,
    List<int[]> ring,
    List<Tree> trees,
    List<List<Integer>> hosts,
    boolean carried,
    List<AllowedCores> local,
    Progress progress,
    Duration deadline,
    Nvls nvls,
    LaunchOptions launching,
    PeerConnector connector,
    SingleCopy singleCopy) {
  /** The same on other connections. */
  public KernelCommunicatorSpec withConnections(
      List<Connection> newSends, List<Connection> newRecvs) {
    return with(newSends, newRecvs, launching);
  }

  /** The same with other ways to launch. */
  public KernelCommunicatorSpec withLaunching(LaunchOptions options) {
    return with(sends, recvs, options);
  }

  private KernelCommunicatorSpec with(
      List<Connection> newSends, List<Connection> newRecvs, LaunchOptions options) {
    return new KernelCommunicatorSpec(
        name,
        rank,
        nRanks,
        layout,
        newSends,
        newRecvs,
        ring,
        trees,
        hosts,
        carried,
        local,
        progress,
        deadline,
        nvls,
        options,
        connector,
        singleCopy);
  }

  /** All ranks on one host. */
  public static List<List<Integer>> together(int nRanks) {
    return List.of(IntStream.range(0, nRanks).boxed().toList());
  }

  /** Ranks that share this machine's processor with this one, itself included. */
  public int localRanks() {
    return local.size();
  }

  /** True if each of them can have a core for itself. */
  public boolean hasCoresForAll() {
    return local.size() <= AllowedCores.together(local);
  }

  /**
   * A communicator of one host without NVLS that is launched in the plainest way.
   *
   * @param localRanks ranks that share this machine's processor, all bound as this thread is
   */
  public KernelCommunicatorSpec(
      String name,
      int rank,
      int nRanks,
      ConnectionLayout layout,
      List<Connection> sends,
      List<Connection> recvs,
      List<int[]> ring,
      List<Tree> trees,
      int localRanks,
      Progress progress,
      Duration deadline) {
    this(
        name,
        rank,
        nRanks,
        layout,
        sends,
        recvs,
        ring,
        trees,
        together(nRanks),
        /* carried= */ false,
        AllowedCores.ofThisThread(localRanks),
        progress,
        deadline,
        /* nvls= */ null,
        LaunchOptions.PLAIN,
        PeerConnector.NONE,
        SingleCopy.OFF);
  }

  /**
   * The steps whose data a receiver on the host reads from the sender's buffer itself, once,
   * instead of from a slot that the sender has copied them into. Each rank's own choice: a sender
   * decides by its sizes, among the ways that the receiver has agreed to.
   *
   * @param inProcess least bytes of such a step between ranks of one process; {@link #NEVER} for
   *     none
   * @param betweenProcesses the same for ranks of two processes, read through the kernel; {@link
   *     #MEASURED} leaves it to the receiver's measurement
   * @param mapped the same for ranks of two processes and memory that the device allocated, which
   *     the receiver maps
   * @param level level at which receivers log the ways that they have agreed to
   * @param times keeps what the receiver has measured
   */
  public record SingleCopy(
      int inProcess, int betweenProcesses, int mapped, Level level, CopyTimes.Store times) {
    /** A size that no step has. */
    public static final int NEVER = Integer.MAX_VALUE;

    /** The size from which on a receiver finds reading faster than two copies, if there is one. */
    public static final int MEASURED = 0;

    /**
     * Least bytes of a step that is read from a buffer which the receiver can access: below them a
     * copy costs less than the sender's wait for the reading.
     */
    public static final int LEAST_BYTES = 4 << 10;

    /** All data go through slots. */
    public static final SingleCopy OFF = new SingleCopy(NEVER, NEVER, Level.DEBUG);

    /** Sizes of a receiver that keeps no times. */
    public SingleCopy(int inProcess, int betweenProcesses, int mapped, Level level) {
      this(inProcess, betweenProcesses, mapped, level, CopyTimes.Store.NONE);
    }

    /** Without memory that the receiver maps. */
    public SingleCopy(int inProcess, int betweenProcesses, Level level) {
      this(inProcess, betweenProcesses, NEVER, level);
    }
  }

  /**
   * The least times that copies between two ranks of the host device took, for ranks of several
   * processes.
   *
   * @param single nanoseconds of process_vm_readv for each of {@link #SIZES}; empty where it does
   *     not work or was not measured
   * @param twice nanoseconds of the two copies that take data through a slot, likewise
   */
  public record CopyTimes(List<Long> single, List<Long> twice) {
    /** The sizes that are measured, in bytes. The largest is about a slot of Simple. */
    public static final List<Integer> SIZES = List.of(32 << 10, 64 << 10, 128 << 10, 256 << 10);

    /** Nothing was measured. */
    public static final CopyTimes NONE = new CopyTimes(List.of(), List.of());

    /**
     * A single copy may take so many times two copies' time and still be worth it: with slots the
     * ranks also wait for each other's words. Where both took the same time here, on a Xeon, ranks
     * gained up to 2.2 times by single copies; on an EPYC they take 1.5 to 2 times, and ranks lose.
     */
    private static final double WORTH = 1.2;

    /** Two measurements of the same may differ so much: the least divided by the other. */
    private static final double AGREEMENT = 0.8;

    /**
     * Times that an earlier process has kept.
     *
     * @param isDue true if this process is to measure again, since other programs may have had the
     *     processors when they were measured
     */
    public record Kept(CopyTimes times, boolean isDue) {}

    /** Keeps the times of a machine for later processes. Any thread. */
    public interface Store {
      /** Keeps nothing. */
      Store NONE =
          new Store() {
            @Override
            public Optional<Kept> find() {
              return Optional.empty();
            }

            @Override
            public CopyTimes keep(CopyTimes measured) {
              return measured;
            }
          };

      /** The times that an earlier process has kept; empty if there are none for this machine. */
      Optional<Kept> find();

      /**
       * Keeps times that were measured; one that cannot keep them logs the reason.
       *
       * @return the least of these and of those kept before
       */
      CopyTimes keep(CopyTimes measured);
    }

    /** The lesser of two measurements' times: other programs only make copies slower. */
    public CopyTimes least(CopyTimes other) {
      return new CopyTimes(least(single, other.single), least(twice, other.twice));
    }

    private static List<Long> least(List<Long> some, List<Long> others) {
      return IntStream.range(0, some.size())
          .mapToObj(s -> Math.min(some.get(s), others.get(s)))
          .toList();
    }

    /** True if another measurement took about the same times. */
    public boolean agreesWith(CopyTimes other) {
      return agree(single, other.single) && agree(twice, other.twice);
    }

    private static boolean agree(List<Long> some, List<Long> others) {
      return IntStream.range(0, some.size())
          .allMatch(s -> agree(some.get(s), others.get(s)) && agree(others.get(s), some.get(s)));
    }

    private static boolean agree(long some, long other) {
      return some >= AGREEMENT * other;
    }

    /** True if both ways were measured. */
    public boolean isMeasured() {
      return !single.isEmpty();
    }

    /**
     * The least size from which on process_vm_readv is faster.
     *
     * @return bytes; {@link Integer#MAX_VALUE} where it is slower at the largest size
     */
    public int leastBytes() {
      int least = Integer.MAX_VALUE;
      for (int s = single.size() - 1; s >= 0; s--) {
        if (single.get(s) > WORTH * twice.get(s)) {
          break;
        }
        least = SIZES.get(s);
      }
      return least;
    }

    /** Both times of the largest size, for a log. */
    @Override
    public String toString() {
      int last = SIZES.size() - 1;
      return !isMeasured()
          ? "process_vm_readv does not work, or there is no second core to measure it with"
          : String.format(
              Locale.ROOT,
              "%d bytes take %.1f us by process_vm_readv and %.1f us by two copies",
              SIZES.get(last),
              single.get(last) / 1e3,
              twice.get(last) / 1e3);
    }
  }
}
