package org.nccl4j.api.group;

import org.nccl4j.api.launch.Launcher;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.ExpertSizes;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.operation.Operation;

/**
 * Launches of one rank's dispatches and combines, in the order of its operations. All but {@link
 * #inOrder} and {@link #discard} are called between the launcher's enter and leave.
 */
final class ExpertLaunches {
  private final Launcher launcher;
  private final ExpertSizes sizes;

  /** Elements of the tokens of the last dispatch, for the record. */
  private long elements;

  ExpertLaunches(Launcher launcher, ExpertSizes sizes) {
    this.launcher = launcher;
    this.sizes = sizes;
  }

  /** A dispatch of some tokens begins, and the combine after it. */
  void begin(int tokens) {
    elements = (long) tokens * sizes.hidden();
  }

  /** Launches a call, or the first part of one, of which hooks are told. */
  void first(
      Operation operation,
      KernelPlan plan,
      DeviceMemory send,
      DeviceMemory recv,
      DeviceStream stream) {
    next(operation, plan, send, recv, stream);
    launcher.tell(operation.key(), elements, sizes.type(), 0, stream);
  }

  /** Launches a further part of a call. */
  void next(
      Operation operation,
      KernelPlan plan,
      DeviceMemory send,
      DeviceMemory recv,
      DeviceStream stream) {
    long shape = CallShape.of(operation, sizes.type(), RedOp.SUM, 0);
    launcher.launchOther(plan, send, recv, stream, shape, elements);
  }

  /** Runs a step in the order of the rank's operations. */
  void inOrder(Runnable step) {
    launcher.enter();
    try {
      step.run();
    } finally {
      launcher.leave();
    }
  }

  /** Gives plans back; as {@link Launcher#discard}. */
  void discard(Runnable plans) {
    launcher.discard(plans);
  }
}
