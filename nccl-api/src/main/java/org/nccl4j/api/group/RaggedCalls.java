package org.nccl4j.api.group;

import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.Leases;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.ExpertKernels.Form;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.RaggedKernels;
import org.nccl4j.operation.Operation;

/**
 * One rank's calls by the kernel of one ragged exchange, launched in the order of its operations.
 * The host does not know the counts: records and hooks have the most bytes for one rank. Arguments
 * were checked. Any thread.
 */
public final class RaggedCalls {
  private final Launcher launcher;
  private final KernelCommunicator kernels;
  private final long mostBytes;
  private final RegisteredWindow received;
  private final RaggedKernels.Plan plan;

  private RaggedCalls(
      Launcher launcher, KernelCommunicator kernels, Exchange exchange, RaggedKernels.Plan plan) {
    this.launcher = launcher;
    this.kernels = kernels;
    this.mostBytes = exchange.sizes.maxCount() * exchange.sizes.elementBytes();
    this.received = exchange.received;
    this.plan = plan;
  }

  /**
   * An exchange.
   *
   * @param form of its kernel
   * @param received the window of the received elements
   */
  public record Exchange(
      RaggedKernels.Sizes sizes,
      Form form,
      RegisteredWindow received,
      RaggedKernels.Memory memory) {}

  /** Prepares the kernel of an exchange; as {@link RaggedKernels#prepare}. */
  public static RaggedCalls prepare(
      Launcher launcher, KernelCommunicator kernels, Exchange exchange) {
    launcher.enter();
    try {
      RaggedKernels.Plan plan =
          kernels
              .raggedKernels()
              .orElseThrow()
              .prepare(exchange.sizes, exchange.form, exchange.memory);
      return new RaggedCalls(launcher, kernels, exchange, plan);
    } finally {
      launcher.leave();
    }
  }

  /** A plan that is made when it is this call's turn. */
  private interface Preparation {
    KernelPlan plan();
  }

  /** Launches an all-to-all; as {@link RaggedKernels.Plan#allToAll}. */
  public void allToAll(DeviceMemory send, DeviceMemory counts, long room, DeviceStream stream) {
    launch(Operation.RAGGED_ALL_TO_ALL, () -> plan.allToAll(counts, room), send, counts, stream);
  }

  /** Launches an all-gather; as {@link RaggedKernels.Plan#allGather}. */
  public void allGather(DeviceMemory send, DeviceMemory count, long room, DeviceStream stream) {
    launch(Operation.RAGGED_ALL_GATHER, () -> plan.allGather(count, room), send, count, stream);
  }

  private void launch(
      Operation operation,
      Preparation preparation,
      DeviceMemory send,
      DeviceMemory counts,
      DeviceStream stream) {
    Leases.begin(counts, null); // the launch itself does not name them
    try {
      launcher.enter();
      try {
        long shape = CallShape.of(operation, DataType.UINT8, RedOp.SUM, 0);
        received.use(kernels.nextLaunch());
        launcher.launchOther(preparation.plan(), send, null, stream, shape, mostBytes);
        launcher.tell(operation.key(), mostBytes, DataType.UINT8, 0, stream);
      } finally {
        launcher.leave();
      }
    } finally {
      Leases.end(counts, null);
    }
  }

  /** Gives the plan back. A communicator that has failed frees it when it is closed. */
  public void discard() {
    launcher.discard(plan::discard);
  }
}
