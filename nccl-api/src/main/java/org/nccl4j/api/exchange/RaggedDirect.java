package org.nccl4j.api.exchange;

import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.group.RaggedCalls;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.window.KernelMemory;
import org.nccl4j.api.window.KernelMemory.Bytes;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.ExpertKernels.Form;
import org.nccl4j.device.kernel.RaggedKernels;
import org.nccl4j.device.symmetric.WindowView;

/**
 * Exchanges elements by a kernel that stores them into the other ranks' windows, where the received
 * elements lie. A call is one kernel in its stream, and waits for nothing.
 */
public final class RaggedDirect implements RaggedDelivery {
  private final CommunicatorState state;
  private final int elementBytes;
  private final KernelMemory memory;
  private final DeviceMemory received;
  private final RaggedCalls calls;

  private RaggedDirect(
      CommunicatorState state,
      int elementBytes,
      KernelMemory memory,
      DeviceMemory received,
      RaggedCalls calls) {
    this.state = state;
    this.elementBytes = elementBytes;
    this.memory = memory;
    this.received = received;
    this.calls = calls;
  }

  /**
   * This rank's kernel, which is loaded then.
   *
   * @param queue whose limits of blocks and protocols count
   */
  public static KernelOffer offer(
      CommunicatorState state, OperationDispatcher queue, RaggedKernels.Sizes sizes) {
    return KernelOffer.of(
        state,
        state.kernels().raggedKernels(),
        kernels -> Math.min(kernels.mostBlocks(sizes), queue.mostBlocks()),
        queue.allowsLines());
  }

  /**
   * Makes the window together with all other ranks.
   *
   * @param form of the kernel, the same on all ranks
   * @param target the user's window for the received elements; null for memory of the exchange
   * @throws NcclException on all ranks, if one of them lacks memory or cannot map another's
   */
  public static RaggedDirect create(
      CommunicatorState state,
      RaggedKernels.Sizes sizes,
      Form form,
      RegisteredWindow target,
      RaggedResults results) {
    RaggedKernels kernels = state.kernels().raggedKernels().orElseThrow();
    long control = kernels.controlBytes(sizes, form);
    long shared = control + (target == null ? sizes.receivedBytes() : 0);
    KernelMemory memory =
        KernelMemory.make(
            state.windows(), null, () -> new Bytes(shared, kernels.ownBytes(sizes, form)));
    try {
      WindowView view = memory.window().view();
      DeviceMemory received =
          target == null
              ? memory.shared().slice(control, sizes.receivedBytes())
              : target.memory().slice(0, sizes.receivedBytes());
      RaggedKernels.Memory all =
          new RaggedKernels.Memory(
              view,
              target == null ? control : first(target.view()) - first(view),
              received,
              memory.own(),
              results.counts(),
              results.offsets());
      RegisteredWindow of = target == null ? memory.window() : target;
      return new RaggedDirect(
          state,
          sizes.elementBytes(),
          memory,
          received,
          state.raggedCalls(new RaggedCalls.Exchange(sizes, form, of, all)));
    } catch (RuntimeException e) {
      memory.close();
      throw e;
    }
  }

  /** The address of the first rank's part of a window, in the flat range. */
  private static long first(WindowView view) {
    return view.peers().get(0).address();
  }

  @Override
  public boolean isCapturable() {
    return true;
  }

  @Override
  public DeviceMemory received() {
    return received;
  }

  @Override
  public void allToAll(DeviceMemory send, DeviceMemory counts, DeviceStream stream) {
    calls.allToAll(send, counts, send.size() / elementBytes, stream);
  }

  @Override
  public void allGather(DeviceMemory send, DeviceMemory count, DeviceStream stream) {
    calls.allGather(send, count, send.size() / elementBytes, stream);
  }

  /** A closed communicator has freed the window and the plan. */
  @Override
  public void close() {
    received.close();
    if (state.isClosed()) {
      memory.own().close();
      return;
    }
    calls.discard();
    memory.close();
  }
}
