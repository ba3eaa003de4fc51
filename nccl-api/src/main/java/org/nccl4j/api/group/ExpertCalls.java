package org.nccl4j.api.group;

import org.nccl4j.api.launch.Launcher;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.Leases;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.ExpertKernels;
import org.nccl4j.device.kernel.ExpertSizes;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.operation.Operation;

/**
 * One rank's dispatches and combines by kernels of one exchange with experts, launched in the order
 * of its operations. Hooks see a call in two parts once; the flight recorder has both launches.
 * Arguments were checked. Any thread.
 */
public final class ExpertCalls {
  private final Launcher launcher;
  private final ExpertSizes sizes;
  private final ExpertKernels.Plans plans;

  /** Elements of the tokens of the last dispatch, for the record. */
  private long elements;

  private ExpertCalls(Launcher launcher, ExpertSizes sizes, ExpertKernels.Plans plans) {
    this.launcher = launcher;
    this.sizes = sizes;
    this.plans = plans;
  }

  /** Prepares the kernels of an exchange; as {@link ExpertKernels#prepare}. */
  public static ExpertCalls prepare(
      Launcher launcher,
      ExpertKernels kernels,
      ExpertSizes sizes,
      ExpertKernels.Form form,
      ExpertKernels.Memory memory) {
    launcher.enter();
    try {
      return new ExpertCalls(launcher, sizes, kernels.prepare(sizes, form, memory));
    } finally {
      launcher.leave();
    }
  }

  /** Launches a dispatch or its sending part; as {@link ExpertKernels.Plans#dispatch}. */
  public void dispatch(
      DeviceMemory tokens,
      DeviceMemory experts,
      DeviceMemory weights,
      int count,
      boolean whole,
      DeviceStream stream) {
    Leases.begin(experts, weights); // the launch itself does not name them
    try {
      launcher.enter();
      try {
        elements = (long) count * sizes.hidden();
        launch(
            Operation.DISPATCH,
            plans.dispatch(experts, weights, count, whole),
            tokens,
            null,
            stream);
      } finally {
        launcher.leave();
      }
    } finally {
      Leases.end(experts, weights);
    }
  }

  /** Launches the receiving part; as {@link ExpertKernels.Plans#receiveDispatch}. */
  public void receiveDispatch(DeviceStream stream) {
    launcher.enter();
    try {
      record(Operation.DISPATCH, plans.receiveDispatch(), null, null, stream);
    } finally {
      launcher.leave();
    }
  }

  /**
   * Launches a combine; as {@link ExpertKernels.Plans#combine}.
   *
   * @param result null for the sending part alone
   */
  public void combine(DeviceMemory outputs, long rows, DeviceMemory result, DeviceStream stream) {
    launcher.enter();
    try {
      launch(Operation.COMBINE, plans.combine(rows, result != null), outputs, result, stream);
    } finally {
      launcher.leave();
    }
  }

  /** Launches the receiving part; as {@link ExpertKernels.Plans#receiveCombine}. */
  public void receiveCombine(DeviceMemory result, DeviceStream stream) {
    launcher.enter();
    try {
      record(Operation.COMBINE, plans.receiveCombine(), null, result, stream);
    } finally {
      launcher.leave();
    }
  }

  private void launch(
      Operation operation,
      KernelPlan plan,
      DeviceMemory send,
      DeviceMemory recv,
      DeviceStream stream) {
    record(operation, plan, send, recv, stream);
    launcher.tell(operation.key(), elements, sizes.type(), 0, stream);
  }

  private void record(
      Operation operation,
      KernelPlan plan,
      DeviceMemory send,
      DeviceMemory recv,
      DeviceStream stream) {
    long shape = CallShape.of(operation, sizes.type(), RedOp.SUM, 0);
    launcher.launchOther(plan, send, recv, stream, shape, elements);
  }

  /** Gives the plans back. A communicator that has failed frees them when it is closed. */
  public void discard() {
    try {
      launcher.enter();
    } catch (NcclException failed) {
      return;
    }
    try {
      plans.discard();
    } finally {
      launcher.leave();
    }
  }
}
