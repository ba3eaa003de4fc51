package org.nccl4j.api.exchange;

import org.nccl4j.api.group.ExpertCalls;
import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.window.KernelMemory;
import org.nccl4j.api.window.KernelMemory.Bytes;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.ExpertKernels;
import org.nccl4j.device.kernel.ExpertKernels.Form;
import org.nccl4j.device.kernel.ExpertSizes;

/**
 * Delivers tokens by kernels that store into the other ranks' windows. A call, or a part of one, is
 * one kernel in its stream, and waits for nothing.
 */
public final class ExpertDirect implements ExpertDelivery {
  private final CommunicatorState state;
  private final long rowBytes;
  private final KernelMemory memory;
  private final ExpertCalls calls;

  private ExpertDirect(
      CommunicatorState state, ExpertSizes sizes, KernelMemory memory, ExpertCalls calls) {
    this.state = state;
    this.rowBytes = sizes.rowBytes();
    this.memory = memory;
    this.calls = calls;
  }

  /**
   * This rank's kernels, which are loaded then.
   *
   * @param queue whose limits of blocks and protocols count
   */
  public static KernelOffer offer(
      CommunicatorState state, OperationDispatcher queue, ExpertSizes sizes) {
    return KernelOffer.of(
        state,
        state.kernels().expertKernels(),
        kernels -> Math.min(kernels.mostBlocks(sizes), queue.mostBlocks()),
        queue.keepsLines());
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
      return new ExpertDirect(
          state, sizes, memory, state.expertCalls(kernels, sizes, form, with(memory, buffers)));
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
    calls.dispatch(tokens, experts, weights, count, whole, stream);
  }

  @Override
  public void receiveDispatch(DeviceStream stream) {
    calls.receiveDispatch(stream);
  }

  @Override
  public void combine(DeviceMemory outputs, DeviceMemory result, DeviceStream stream) {
    calls.combine(outputs, outputs.size() / rowBytes, result, stream);
  }

  @Override
  public void receiveCombine(DeviceMemory result, DeviceStream stream) {
    calls.receiveCombine(result, stream);
  }

  /** A closed communicator has freed the window and the plans. */
  @Override
  public void close() {
    if (state.isClosed()) {
      memory.own().close();
      return;
    }
    calls.discard();
    memory.close();
  }
}
