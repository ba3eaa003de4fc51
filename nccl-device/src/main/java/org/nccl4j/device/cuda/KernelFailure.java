package org.nccl4j.device.cuda;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Function;
import java.util.function.Supplier;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.support.Patience;

/** The failure of a communicator whose kernels have given up, with its reason. Any thread. */
final class KernelFailure {
  private static final long EXPLANATION_NANOS = 5_000_000_000L;
  private static final long POLL_NANOS = 100_000;

  private final ConnectionUsers users;
  private final Supplier<String> report;
  private final Supplier<Function<String, NcclException>> kind;

  /** Set by the first who sees that a kernel gave up: it asks why, and may be asked meanwhile. */
  private final AtomicBoolean explaining = new AtomicBoolean();

  private volatile Supplier<String> explanation = () -> "";
  private volatile Supplier<String> remedy = () -> "";

  /**
   * No failure of its own.
   *
   * @param users who fail together
   * @param report what a kernel says that has given up; null while all is well
   * @param kind the error of what was said, found in the kernels' memory: asked before all that
   *     takes long, since the communicator may close meanwhile
   */
  KernelFailure(
      ConnectionUsers users,
      Supplier<String> report,
      Supplier<Function<String, NcclException>> kind) {
    this.users = users;
    this.report = report;
    this.kind = kind;
  }

  void explainBy(Supplier<String> newExplanation, Supplier<String> newRemedy) {
    remedy = newRemedy;
    explanation = newExplanation;
  }

  /** The cause, or null; also null while another thread asks why a kernel gave up. */
  NcclException look() {
    if (users.failure() == null) {
      String said = report.get();
      if (said != null) {
        explain(said);
      }
    }
    return users.failure();
  }

  /** Asks why a kernel gave up, unless another thread does. */
  void explain(String said) {
    if (explaining.compareAndSet(false, true)) {
      Function<String, NcclException> error = kind.get();
      String why = explanation.get();
      String complaint = said + (why.isEmpty() ? "" : "; " + why);
      NcclException failure = error.apply(complaint);
      String cure = failure instanceof TimeoutException ? remedy.get() : "";
      users.fail(cure.isEmpty() ? failure : error.apply(complaint + "; " + cure));
    }
  }

  /**
   * Checks as {@link #look} does, for ended work that must not pass as correct. If another thread
   * is explaining why a kernel gave up, this method waits briefly for the explanation.
   */
  NcclException settled() {
    NcclException cause = look();
    String said = cause == null ? report.get() : null;
    if (said == null) {
      return cause;
    }
    Function<String, NcclException> error = kind.get();
    long start = System.nanoTime();
    while (users.failure() == null && System.nanoTime() - start < EXPLANATION_NANOS) {
      Patience.sleep(POLL_NANOS);
    }
    users.fail(error.apply(said));
    return users.failure();
  }
}
