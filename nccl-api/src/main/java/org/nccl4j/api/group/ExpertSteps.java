package org.nccl4j.api.group;

import org.nccl4j.api.launch.Launcher;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.kernel.ExpertKernels;
import org.nccl4j.device.kernel.ExpertSizes;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.operation.Operation;

/**
 * The steps of one rank's dispatches and combines by sends and receives, launched in the order of
 * its operations. Hooks are told of the first step of each call. Arguments were checked. Any
 * thread.
 */
public final class ExpertSteps {
  private final ExpertLaunches launches;
  private final ExpertKernels.Steps steps;

  private ExpertSteps(Launcher launcher, ExpertSizes sizes, ExpertKernels.Steps steps) {
    this.launches = new ExpertLaunches(launcher, sizes);
    this.steps = steps;
  }

  /** Prepares the steps of an exchange; as {@link KernelCommunicator#expertSteps}. */
  public static ExpertSteps prepare(
      Launcher launcher, KernelCommunicator kernels, ExpertSizes sizes, int mostBlocks) {
    launcher.enter();
    try {
      return new ExpertSteps(launcher, sizes, kernels.expertSteps(sizes, mostBlocks));
    } finally {
      launcher.leave();
    }
  }

  /** Rows that a step reads and writes, by lists. */
  public record Rows(DeviceMemory items, DeviceMemory targets, long count) {}

  /** Packs tokens of a dispatch; as {@link ExpertKernels.Steps#pack}. */
  public void pack(
      int tokens, DeviceMemory from, Rows rows, DeviceMemory staging, DeviceStream stream) {
    launches.inOrder(
        () -> {
          launches.begin(tokens);
          KernelPlan plan = steps.pack(rows.items, rows.targets, rows.count);
          launches.first(Operation.DISPATCH, plan, from, staging, stream);
        });
  }

  /** Packs tokens that are forwarded; as {@link ExpertKernels.Steps#forward}. */
  public void forward(Rows rows, DeviceMemory staging, DeviceStream stream) {
    launches.inOrder(
        () -> {
          KernelPlan plan = steps.forward(rows.items, rows.targets, rows.count);
          launches.next(Operation.DISPATCH, plan, staging, staging, stream);
        });
  }

  /**
   * Places received tokens; as {@link ExpertKernels.Steps#place}.
   *
   * @param rows with the scales for targets
   */
  public void place(DeviceMemory staging, Rows rows, DeviceMemory received, DeviceStream stream) {
    launches.inOrder(
        () -> {
          KernelPlan plan = steps.place(rows.items, rows.targets, rows.count);
          launches.next(Operation.DISPATCH, plan, staging, received, stream);
        });
  }

  /** Gathers outputs of a combine; as {@link ExpertKernels.Steps#gather}. */
  public void gather(
      DeviceMemory outputs,
      DeviceMemory targets,
      long count,
      DeviceMemory packed,
      DeviceStream stream) {
    launches.inOrder(
        () -> {
          KernelPlan plan = steps.gather(targets, count);
          launches.first(Operation.COMBINE, plan, outputs, packed, stream);
        });
  }

  /**
   * Adds outputs; as {@link ExpertKernels.Steps#add}.
   *
   * @param tokens with the weights for targets
   */
  public void add(DeviceMemory returned, Rows tokens, DeviceMemory result, DeviceStream stream) {
    launches.inOrder(
        () -> {
          KernelPlan plan = steps.add(tokens.items, tokens.targets, tokens.count);
          launches.next(Operation.COMBINE, plan, returned, result, stream);
        });
  }

  /** Gives the plans back. A communicator that has failed frees them when it is closed. */
  public void discard() {
    launches.discard(steps::discard);
  }
}
