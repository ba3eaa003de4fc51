package org.nccl4j.api.group;

import org.nccl4j.api.launch.Launcher;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
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
  private final Launcher launcher;
  private final ExpertSizes sizes;
  private final ExpertKernels.Steps steps;

  /** Elements of the tokens of the last dispatch, for the record. */
  private long elements;

  private ExpertSteps(Launcher launcher, ExpertSizes sizes, ExpertKernels.Steps steps) {
    this.launcher = launcher;
    this.sizes = sizes;
    this.steps = steps;
  }

  /** Prepares the steps of an exchange; as {@link KernelCommunicator#expertSteps}. */
  public static ExpertSteps prepare(
      Launcher launcher, KernelCommunicator kernels, ExpertSizes sizes) {
    launcher.enter();
    try {
      return new ExpertSteps(launcher, sizes, kernels.expertSteps(sizes));
    } finally {
      launcher.leave();
    }
  }

  /** Rows that a step reads and writes, by lists. */
  public record Rows(DeviceMemory items, DeviceMemory targets, long count) {}

  /** Packs tokens of a dispatch; as {@link ExpertKernels.Steps#pack}. */
  public void pack(
      int tokens, DeviceMemory from, Rows rows, DeviceMemory staging, DeviceStream stream) {
    launcher.enter();
    try {
      elements = (long) tokens * sizes.hidden();
      KernelPlan plan = steps.pack(rows.items, rows.targets, rows.count);
      launch(Operation.DISPATCH, plan, from, staging, stream);
      launcher.tell(Operation.DISPATCH.key(), elements, sizes.type(), 0, stream);
    } finally {
      launcher.leave();
    }
  }

  /** Packs tokens that are forwarded; as {@link ExpertKernels.Steps#forward}. */
  public void forward(Rows rows, DeviceMemory staging, DeviceStream stream) {
    launcher.enter();
    try {
      KernelPlan plan = steps.forward(rows.items, rows.targets, rows.count);
      launch(Operation.DISPATCH, plan, staging, staging, stream);
    } finally {
      launcher.leave();
    }
  }

  /**
   * Places received tokens; as {@link ExpertKernels.Steps#place}.
   *
   * @param rows with the scales for targets
   */
  public void place(DeviceMemory staging, Rows rows, DeviceMemory received, DeviceStream stream) {
    launcher.enter();
    try {
      KernelPlan plan = steps.place(rows.items, rows.targets, rows.count);
      launch(Operation.DISPATCH, plan, staging, received, stream);
    } finally {
      launcher.leave();
    }
  }

  /** Gathers outputs of a combine; as {@link ExpertKernels.Steps#gather}. */
  public void gather(
      DeviceMemory outputs,
      DeviceMemory targets,
      long count,
      DeviceMemory packed,
      DeviceStream stream) {
    launcher.enter();
    try {
      KernelPlan plan = steps.gather(targets, count);
      launch(Operation.COMBINE, plan, outputs, packed, stream);
      launcher.tell(Operation.COMBINE.key(), elements, sizes.type(), 0, stream);
    } finally {
      launcher.leave();
    }
  }

  /**
   * Adds outputs; as {@link ExpertKernels.Steps#add}.
   *
   * @param tokens with the weights for targets
   */
  public void add(DeviceMemory returned, Rows tokens, DeviceMemory result, DeviceStream stream) {
    launcher.enter();
    try {
      KernelPlan plan = steps.add(tokens.items, tokens.targets, tokens.count);
      launch(Operation.COMBINE, plan, returned, result, stream);
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
      steps.discard();
    } finally {
      launcher.leave();
    }
  }
}
