package org.nccl4j.device.cuda;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;

/** What a communicator has failed by, and why, once its kernels have given up. Any thread. */
final class KernelFailure {
  private static final long EXPLANATION_NANOS = 5_000_000_000L;
  private static final long POLL_NANOS = 100_000;

  private final Supplier<String> report;
  private final Supplier<String> remedy;
  private final AtomicReference<NcclException> first = new AtomicReference<>();

  /** Set by the first who sees that a kernel gave up: it asks why, and may be asked meanwhile. */
  private final AtomicBoolean explaining = new AtomicBoolean();

  private volatile Supplier<String> explanation = () -> "";

  /**
   * No failure.
   *
   * @param report what a kernel says that has given up; null while all is well
   * @param remedy against that
   */
  KernelFailure(Supplier<String> report, Supplier<String> remedy) {
    this.report = report;
    this.remedy = remedy;
  }

  void explainBy(Supplier<String> newExplanation) {
    explanation = newExplanation;
  }

  /** Takes a cause unless there was one before. */
  void set(NcclException cause) {
    first.compareAndSet(null, cause);
  }

  /** The cause that is known without a look at the kernels, or null. */
  NcclException known() {
    return first.get();
  }

  /** The cause, or null; also null while another thread asks why a kernel gave up. */
  NcclException look() {
    if (first.get() == null) {
      String said = report.get();
      if (said != null && explaining.compareAndSet(false, true)) {
        String why = explanation.get();
        set(deadlinePassed(why.isEmpty() ? said : said + "; " + why));
      }
    }
    return first.get();
  }

  /**
   * As {@link #look}, where what has ended must not pass for right: while another thread asks why a
   * kernel gave up, this one waits for the answer, and not for long.
   */
  NcclException settled() {
    NcclException cause = look();
    String said = cause == null ? report.get() : null;
    if (said == null) {
      return cause;
    }
    long start = System.nanoTime();
    while (first.get() == null && System.nanoTime() - start < EXPLANATION_NANOS) {
      LockSupport.parkNanos(POLL_NANOS);
    }
    set(deadlinePassed(said));
    return first.get();
  }

  private TimeoutException deadlinePassed(String problem) {
    return new TimeoutException(ErrorId.OPERATION, problem, remedy.get());
  }
}
