package org.nccl4j.transport.net.proxy;

import java.time.Duration;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;

/**
 * A connection that broke. Its other end may have ended it because some third rank failed, which
 * the bootstrap is about to tell; so the cause is held back for a moment. Owned by the thread that
 * gives the proxy its turn.
 */
final class DelayedFailure {
  private static final long GRACE_NANOS = Duration.ofSeconds(1).toNanos();

  private final EndpointNames ranks;
  private NcclException cause;
  private long since;

  DelayedFailure(EndpointNames ranks) {
    this.ranks = ranks;
  }

  /** Keeps the error of a broken connection; throws one whose cause no other rank knows. */
  void notice(NcclException broken) {
    if (broken.id() == ErrorId.PLUGIN || broken instanceof InternalErrorException) {
      throw broken;
    }
    if (broken.id() == ErrorId.DAMAGED) {
      throw ranks.damaged(broken);
    }
    cause = broken;
    since = System.nanoTime();
  }

  /** True if the connection broke; throws once nobody can be expected to know better. */
  boolean happened() {
    if (cause == null) {
      return false;
    }
    if (System.nanoTime() - since > GRACE_NANOS) {
      throw ranks.lost(cause);
    }
    return true;
  }
}
