package org.nccl4j.api.group;

import org.nccl4j.api.launch.Launcher;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.Leases;
import org.nccl4j.device.kernel.ExpertKernels;
import org.nccl4j.device.kernel.ExpertSizes;
import org.nccl4j.operation.Operation;

/**
 * One rank's dispatches and combines by kernels of one exchange with experts, launched in the order
 * of its operations. Hooks see a call in two parts once; the flight recorder has both launches.
 * Arguments were checked. Any thread.
 */
public final class ExpertCalls {
  private final Launcher launcher;
  private final ExpertLaunches launches;
  private final ExpertKernels.Plans plans;

  private ExpertCalls(Launcher launcher, ExpertSizes sizes, ExpertKernels.Plans plans) {
    this.launcher = launcher;
    this.launches = new ExpertLaunches(launcher, sizes);
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
        launches.begin(count);
        launches.first(
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
      launches.next(Operation.DISPATCH, plans.receiveDispatch(), null, null, stream);
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
      launches.first(
          Operation.COMBINE, plans.combine(rows, result != null), outputs, result, stream);
    } finally {
      launcher.leave();
    }
  }

  /** Launches the receiving part; as {@link ExpertKernels.Plans#receiveCombine}. */
  public void receiveCombine(DeviceMemory result, DeviceStream stream) {
    launcher.enter();
    try {
      launches.next(Operation.COMBINE, plans.receiveCombine(), null, result, stream);
    } finally {
      launcher.leave();
    }
  }

  /** Gives the plans back. A communicator that has failed frees them when it is closed. */
  public void discard() {
    launches.discard(plans::discard);
  }
}
