package org.nccl4j.api.group;

import org.nccl4j.api.launch.Launcher;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.Leases;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.ExpertKernels;
import org.nccl4j.device.kernel.ExpertSizes;
import org.nccl4j.device.kernel.KernelPlan;

/**
 * One rank's dispatches and combines by kernels of one exchange with experts, launched in the order
 * of its operations. Their arguments were checked. Any thread.
 */
public final class ExpertCalls {
  private final Launcher launcher;
  private final ExpertKernels.Plans plans;

  private ExpertCalls(Launcher launcher, ExpertKernels.Plans plans) {
    this.launcher = launcher;
    this.plans = plans;
  }

  /** Prepares the kernels of an exchange; as {@link ExpertKernels#prepare}. */
  public static ExpertCalls prepare(
      Launcher launcher,
      ExpertKernels kernels,
      ExpertSizes sizes,
      int blocks,
      ExpertKernels.Memory memory) {
    launcher.enter();
    try {
      return new ExpertCalls(launcher, kernels.prepare(sizes, blocks, memory));
    } finally {
      launcher.leave();
    }
  }

  /** Launches a dispatch; as {@link ExpertKernels.Plans#dispatch}. */
  public void dispatch(
      DeviceMemory tokens,
      DeviceMemory experts,
      DeviceMemory weights,
      int count,
      DeviceStream stream) {
    Leases.begin(experts, weights); // the launch itself does not name them
    try {
      launcher.enter();
      try {
        launch(plans.dispatch(experts, weights, count), tokens, null, stream, count);
      } finally {
        launcher.leave();
      }
    } finally {
      Leases.end(experts, weights);
    }
  }

  /** Launches a combine; as {@link ExpertKernels.Plans#combine}. */
  public void combine(DeviceMemory outputs, long rows, DeviceMemory result, DeviceStream stream) {
    launcher.enter();
    try {
      launch(plans.combine(rows), outputs, result, stream, rows);
    } finally {
      launcher.leave();
    }
  }

  private void launch(
      KernelPlan plan, DeviceMemory send, DeviceMemory recv, DeviceStream stream, long count) {
    launcher.launchOther(plan, send, recv, stream, Launcher.UNNAMED, count);
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
