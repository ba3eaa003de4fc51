package org.nccl4j.api.init.connect;

import java.io.File;
import java.util.function.LongSupplier;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.shm.ProcessLimits;

/**
 * Counts the open files of this process and those that its ranks are about to open: refuses
 * connections that would exceed the limit, before the first of them is created. Any thread.
 */
final class OpenFiles {
  /** Descriptors left to the program, and to connections that do not prove themselves. */
  private static final int SPARE = 64;

  /** Descriptors for both connections with a rank, unless sockets have lanes beside them. */
  private static final long MOST_WITHOUT_LANES = 2;

  /** Counting takes a millisecond where there are thousands. */
  private static final long FRESH_NANOS = 100_000_000;

  private static final OpenFiles PROCESS =
      new OpenFiles(OpenFiles::limitOfProcess, OpenFiles::openInProcess, System::nanoTime);

  private final LongSupplier limit;
  private final LongSupplier count;
  private final LongSupplier clock;
  private long promised;
  private long open = -1;
  private long countedNanos;

  /** Files with a limit, a count of the open ones and a clock in nanoseconds. */
  OpenFiles(LongSupplier limit, LongSupplier count, LongSupplier clock) {
    this.limit = limit;
    this.count = count;
    this.clock = clock;
  }

  static OpenFiles ofProcess() {
    return PROCESS;
  }

  /**
   * The connections that a rank is about to make.
   *
   * @param peers ranks that it connects with
   * @param descriptors that this takes, as far as is known
   * @param ranksHere ranks of the communicator in this process
   */
  record Need(int rank, int peers, long descriptors, int ranksHere) {}

  /** Descriptors that are promised until it is closed. */
  interface Promise {
    /** They are open now, or are not needed any more. */
    void close();
  }

  /**
   * Promises descriptors to a rank; to be closed once they are open.
   *
   * @throws SystemErrorException if the limit has no room for them
   */
  synchronized Promise promise(Need need) {
    long most = limit.getAsLong();
    if (need.descriptors > 0 && opened() + promised + need.descriptors + SPARE > most) {
      open = count.getAsLong();
      countedNanos = clock.getAsLong();
      if (open + promised + need.descriptors + SPARE > most) {
        throw refusal(need, most);
      }
    }
    promised += need.descriptors;
    return () -> take(need.descriptors);
  }

  private synchronized void take(long descriptors) {
    promised -= descriptors;
    open += descriptors;
  }

  private long opened() {
    if (open < 0 || clock.getAsLong() - countedNanos > FRESH_NANOS) {
      open = count.getAsLong();
      countedNanos = clock.getAsLong();
    }
    return open;
  }

  private SystemErrorException refusal(Need need, long most) {
    long all = open + need.descriptors * need.ranksHere + SPARE;
    return new SystemErrorException(
        ErrorId.OPEN_FILES,
        ("rank %d needs %d descriptors to connect with %d ranks, and %d ranks of the communicator are"
                + " in this process, which has %d open files, %d promised to other ranks, and a"
                + " limit of %d")
            .formatted(
                need.rank, need.descriptors, need.peers, need.ranksHere, open, promised, most),
        remedy(need, Math.max(all, most + 1)));
  }

  private static String remedy(Need need, long limit) {
    String raise =
        "raise the limit of open files to %d (ulimit -n, or LimitNOFILE of a service)"
            .formatted(limit);
    String fewer = "run fewer ranks in a process";
    return need.descriptors <= MOST_WITHOUT_LANES * need.peers
        ? raise + ", or " + fewer
        : raise
            + ", "
            + fewer
            + ", or set NCCL_SOCKET_NTHREADS=0 on all ranks, by which connections over sockets have"
            + " fewer of them";
  }

  /** The limit of this process; very many where there is none, or the system does not tell it. */
  private static long limitOfProcess() {
    return ProcessLimits.soft(ProcessLimits.OPEN_FILES).orElse(Long.MAX_VALUE);
  }

  private static long openInProcess() {
    String[] open = new File("/proc/self/fd").list();
    return open == null ? 0 : open.length;
  }
}
