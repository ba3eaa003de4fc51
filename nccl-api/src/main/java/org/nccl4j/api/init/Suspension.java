package org.nccl4j.api.init;

import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.function.UnaryOperator;
import org.nccl4j.api.init.engine.Engine;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.support.Patience;

/**
 * Frees a communicator's device memory while it is not used, and allocates it again: connections,
 * the kernels' tables, NVLS and the windows' space. The bootstrap stays open. Both steps are
 * collective, and fail on all ranks if one rank cannot take them.
 */
final class Suspension {
  private final CommunicatorState state;

  Suspension(CommunicatorState state) {
    this.state = state;
  }

  /** Returns the error that refuses operations during a suspension. */
  InvalidUsageException refusal() {
    return new InvalidUsageException(
        ErrorId.SUSPENDED,
        "communicator %s is suspended on rank %d".formatted(state.name(), state.rank()),
        "call resume on all ranks first");
  }

  /** Frees; on an error nothing has changed. */
  void suspend() {
    Engine engine = state.engine();
    InvalidUsageException refusal = refusal();
    boolean launched = engine.launcher().refuse(refusal, state.operationTimeout());
    try {
      agree(launched ? obstacle(engine) : "a thread has been launching an operation for too long");
    } catch (RuntimeException | Error e) {
      engine.launcher().accept(refusal);
      throw e;
    }
    state.release();
    engine.resources().free();
  }

  /** Why this rank cannot suspend; empty if it can. */
  private String obstacle(Engine engine) {
    if (engine.kernels() != engine.resources().kernels()) {
      return "it was split from another communicator, whose connections it uses; suspend that one,"
          + " or split with CommunicatorConfig.withSplitShare(false)";
    }
    if (engine.resources().isShared()) {
      return "communicators that were split from it use its connections; close these first, or"
          + " split with CommunicatorConfig.withSplitShare(false)";
    }
    if (!engine.place().windows().isUnused() || state.hasExchanges()) {
      return "it has windows, registered memory, device communicators, or exchanges with experts or ragged"
          + " ones;"
          + " deregister and close these first";
    }
    if (!state.awaitIdle(state.operationTimeout())) {
      return "its operations have not ended within " + Patience.text(state.operationTimeout());
    }
    return "";
  }

  private void agree(String obstacle) {
    NcclException failure = state.failure();
    if (failure != null) {
      throw failure.again();
    }
    byte[] mine = obstacle.getBytes(StandardCharsets.UTF_8);
    List<byte[]> all = state.exchange("suspend", mine);
    for (int rank = 0; rank < all.size(); rank++) {
      if (all.get(rank).length > 0) {
        throw new InvalidUsageException(
            ErrorId.SUSPENDED,
            "communicator %s cannot be suspended on rank %d: %s"
                .formatted(state.name(), rank, new String(all.get(rank), StandardCharsets.UTF_8)),
            "suspend a communicator that is idle and that nothing else is built on");
      }
    }
  }

  /**
   * Creates everything again, together with all other ranks.
   *
   * @param last what is done with it at the end
   */
  Engine resume(UnaryOperator<Engine> last) {
    return Initializer.again(
        state.request(), state.bootstrap(), state.engine().place().profilers(), last);
  }
}
