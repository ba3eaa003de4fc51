package org.nccl4j.api.bootstrap;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.nccl4j.api.bootstrap.connection.Deadline;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.TimeoutException;

/** Asks another rank's {@link RejoinPoint} for the id of a new root. */
final class RejoinCall {
  private RejoinCall() {}

  /**
   * Asks, and waits for the answer.
   *
   * @param monitor whose failure ends it
   * @throws TimeoutException if the other rank does not make the same call in time
   * @throws SystemErrorException if it cannot be reached
   */
  static byte[] ask(
      RankMonitor monitor,
      RejoinAddress where,
      PeerCredentials trust,
      String key,
      Deadline deadline) {
    Duration left = Duration.ofNanos(Math.max(1, deadline.leftNanos()));
    CompletableFuture<byte[]> answer =
        PeerCall.begin(where, trust, PeerCall.Question.way(where.rank(), key), left);
    answer.whenComplete((way, failure) -> monitor.change(() -> {}));
    try {
      monitor.await(
          () -> answer.isDone() ? true : null, deadline, () -> notCalled(where, deadline));
      return answer.join();
    } catch (CompletionException e) {
      throw new SystemErrorException(
          ErrorId.UNREACHABLE,
          "the rank that should lead the new communicator cannot be reached at %s: %s"
              .formatted(where.text(), e.getCause().getMessage()),
          "make the same call on all ranks of the new communicator, and leave out the dead ones",
          e);
    } finally {
      answer.cancel(false);
    }
  }

  private static TimeoutException notCalled(RejoinAddress where, Deadline deadline) {
    return new TimeoutException(
        ErrorId.RANKS_MISSING,
        "the rank that should lead the new communicator, at %s, has not made the matching call within %s"
            .formatted(where.text(), deadline.text()),
        "make the same call, with the same ranks, on all ranks of the new communicator, or allow"
            + " more time with NCCL4J_INIT_TIMEOUT");
  }
}
