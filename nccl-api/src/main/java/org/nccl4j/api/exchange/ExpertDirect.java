package org.nccl4j.api.exchange;

import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.api.window.KernelMemory;
import org.nccl4j.api.window.KernelMemory.Bytes;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.Leases;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.ExpertKernels;
import org.nccl4j.device.kernel.ExpertKernels.Form;
import org.nccl4j.device.kernel.ExpertSizes;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.operation.Operation;

/**
 * Delivers tokens by kernels that store into the other ranks' windows. A call, or a part of one, is
 * one kernel in its stream, and waits for nothing.
 */
public final class ExpertDirect implements ExpertDelivery {
  private final CommunicatorState state;
  private final ExpertSizes sizes;
  private final KernelMemory memory;
  private final LaunchTurn launches;
  private final ExpertKernels.Plans plans;

  private ExpertDirect(
      CommunicatorState state,
      ExpertSizes sizes,
      KernelMemory memory,
      LaunchTurn launches,
      ExpertKernels.Plans plans) {
    this.state = state;
    this.sizes = sizes;
    this.memory = memory;
    this.launches = launches;
    this.plans = plans;
  }

  /**
   * This rank's kernels, which are loaded then.
   *
   * @param dispatcher whose limits of blocks and protocols count
   */
  public static KernelOffer offer(
      CommunicatorState state, OperationDispatcher dispatcher, ExpertSizes sizes) {
    Planner planner = dispatcher.planner();
    return KernelOffer.of(
        state,
        state.kernels().expertKernels(),
        kernels ->
            new Form(
                Math.min(kernels.mostBlocks(sizes), planner.mostBlocks()),
                planner.keepsLines(),
                planner.bandwidth()));
  }

  /**
   * Makes the window together with all other ranks.
   *
   * @throws NcclException on all ranks, if one of them lacks memory or cannot map another's
   */
  public static ExpertDirect create(
      CommunicatorState state, ExpertSizes sizes, Form form, ExpertBuffers buffers) {
    ExpertKernels kernels = state.kernels().expertKernels().orElseThrow();
    int blocks = form.blocks();
    KernelMemory memory =
        KernelMemory.make(
            state.windows(),
            null,
            () -> new Bytes(kernels.windowBytes(sizes, blocks), kernels.ownBytes(sizes, blocks)));
    try {
      LaunchTurn launches = new LaunchTurn(state.launcher(), sizes.type());
      ExpertKernels.Plans plans =
          launches.prepare(() -> kernels.prepare(sizes, form, with(memory, buffers)));
      double copies = (double) sizes.topK() / sizes.hidden(); // of a token, one for each expert
      launches.noteBytes(state.planned(), Operation.DISPATCH, copies * sizes.travelBytes());
      launches.noteBytes(state.planned(), Operation.COMBINE, copies * sizes.rowBytes());
      return new ExpertDirect(state, sizes, memory, launches, plans);
    } catch (RuntimeException e) {
      memory.close();
      throw e;
    }
  }

  private static ExpertKernels.Memory with(KernelMemory memory, ExpertBuffers buffers) {
    return new ExpertKernels.Memory(
        memory.window().view(),
        memory.own(),
        buffers.received(),
        buffers.scales(),
        buffers.counts(),
        buffers.offsets());
  }

  @Override
  public boolean isCapturable() {
    return true;
  }

  @Override
  public void dispatch(
      DeviceMemory tokens,
      DeviceMemory experts,
      DeviceMemory weights,
      int count,
      boolean whole,
      DeviceStream stream) {
    Leases.begin(experts, weights); // the launch itself does not name them
    try (LaunchTurn turn = launches.enter()) {
      turn.count((long) count * sizes.hidden());
      turn.first(
          Operation.DISPATCH, plans.dispatch(experts, weights, count, whole), tokens, null, stream);
    } finally {
      Leases.end(experts, weights);
    }
  }

  @Override
  public void receiveDispatch(DeviceStream stream) {
    try (LaunchTurn turn = launches.enter()) {
      turn.receive(Operation.DISPATCH, plans.receiveDispatch(), null, stream);
    }
  }

  @Override
  public void combine(DeviceMemory outputs, DeviceMemory result, DeviceStream stream) {
    try (LaunchTurn turn = launches.enter()) {
      long results = result == null ? 0 : rows(result);
      KernelPlan plan = plans.combine(rows(outputs), results, result != null);
      turn.first(Operation.COMBINE, plan, outputs, result, stream);
    }
  }

  @Override
  public void receiveCombine(DeviceMemory result, DeviceStream stream) {
    try (LaunchTurn turn = launches.enter()) {
      turn.receive(Operation.COMBINE, plans.receiveCombine(rows(result)), result, stream);
    }
  }

  private long rows(DeviceMemory memory) {
    return memory.size() / sizes.rowBytes();
  }

  /** A closed communicator has freed the window and the plans. */
  @Override
  public void close() {
    if (state.isClosed()) {
      memory.own().close();
      return;
    }
    launches.discard(plans::discard);
    memory.close();
  }
}
