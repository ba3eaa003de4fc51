package org.nccl4j.device.host.kernel;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.kernel.protocol.ConnectionTable;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.reduce.ExpertPacker;
import org.nccl4j.device.kernel.ExpertKernels;
import org.nccl4j.device.kernel.ExpertSizes;
import org.nccl4j.device.kernel.KernelPlan;

/** Prepares the steps of an exchange with experts on the host. */
final class ExpertPlans implements ExpertKernels.Steps {
  private final KernelSerializer turns;
  private final ConnectionTable ends;
  private final ExpertPacker packer;

  ExpertPlans(KernelSerializer turns, ConnectionTable ends, ExpertSizes sizes) {
    this.turns = turns;
    this.ends = ends;
    this.packer = new ExpertPacker(sizes);
  }

  private KernelPlan plan(Kernel kernel) {
    return new KernelSerializer.Plan(turns, ends, kernel);
  }

  @Override
  public KernelPlan pack(DeviceMemory tokens, DeviceMemory targets, long count) {
    return plan((send, recv) -> packer.pack(tokens, targets, count, send, recv));
  }

  @Override
  public KernelPlan forward(DeviceMemory from, DeviceMemory targets, long count) {
    return plan((send, recv) -> packer.forward(from, targets, count, send, recv));
  }

  @Override
  public KernelPlan place(DeviceMemory from, DeviceMemory scales, long count) {
    return plan((send, recv) -> packer.place(from, scales, count, send, recv));
  }

  @Override
  public KernelPlan gather(DeviceMemory targets, long count) {
    return plan((send, recv) -> packer.gather(targets, count, send, recv));
  }

  @Override
  public KernelPlan add(DeviceMemory places, DeviceMemory weights, long tokens) {
    return plan((send, recv) -> packer.add(places, weights, tokens, send, recv));
  }

  /** Plans hold nothing outside the heap. */
  @Override
  public void discard() {}
}
