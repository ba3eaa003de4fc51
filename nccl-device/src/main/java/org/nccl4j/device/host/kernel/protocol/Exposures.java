package org.nccl4j.device.host.kernel.protocol;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.stream.Backoff;
import org.nccl4j.device.kernel.Progress;

/**
 * The connections through which this rank's current kernel has exposed memory. The kernel ends only
 * when all of it was read: then the buffers are the caller's again. Owned by the thread that runs
 * the communicator's current kernel.
 */
final class Exposures {
  private static final Logger LOG = DebugLog.of("P2P");

  /** A receiver that does not end its read is looked for so often: it may have been killed. */
  private static final long LOOK_NANOS = 10_000_000;

  private final SendEnd[] senders;
  private int count;

  /** For so many connections at most. */
  Exposures(int most) {
    senders = new SendEnd[most];
  }

  /** The first exposure of a kernel through a connection. */
  @HotPath
  void add(SendEnd sender) {
    senders[count] = sender;
    count++;
  }

  /** True if the current kernel has exposed something. */
  @HotPath
  boolean exist() {
    return count > 0;
  }

  /** Waits until all that was exposed was read. */
  @HotPath
  void settle(SpinWait waiter) {
    while (count > 0) {
      senders[count - 1].awaitReturn(waiter);
      count--;
      senders[count] = null;
    }
  }

  /**
   * After a failure: takes back what is exposed, and waits for receivers that are in the middle of
   * a step, which takes them microseconds, unless their process has ended. A proxy ends the
   * connection of the network first.
   */
  void revoke(long patienceNanos, Progress progress) {
    for (int l = 0; l < count; l++) {
      senders[l].exposing().revoke();
    }
    progress.endExposures();
    long begin = System.nanoTime();
    long lookNanos = LOOK_NANOS;
    Backoff backoff = new Backoff(0);
    while (count > 0) {
      SendEnd sender = senders[count - 1];
      if (sender.exposing().isBeingRead()) {
        long passed = System.nanoTime() - begin;
        boolean ended = false;
        if (passed >= lookNanos) {
          lookNanos = passed + LOOK_NANOS;
          ended = sender.exposing().hasReaderEnded();
        }
        if (!ended && passed < patienceNanos) {
          backoff.idle();
          continue;
        }
        if (!ended) {
          sender.exposing().keep();
          LOG.log(
              Level.WARNING,
              "rank {0} still reads buffers of this rank, which has failed: their memory is not"
                  + " freed",
              sender.peer);
        }
      }
      sender.forgetExposures();
      count--;
      senders[count] = null;
    }
  }
}
