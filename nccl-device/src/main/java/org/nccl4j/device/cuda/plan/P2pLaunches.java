package org.nccl4j.device.cuda.plan;

import java.util.List;
import java.util.stream.Collectors;
import org.nccl4j.device.cuda.stream.GpuStream;

/**
 * Sends and receives in several plans, one after the other.
 *
 * <p>Those that do not fit the GPU at once are kernels that each fit it as a whole, of the nearest
 * ranks first. Of all messages that are not done, the one of the least distance is thus in the
 * running kernel at both ends, at whatever distance each rank begins its next kernel.
 *
 * <p>Those in steps are a plan for each step.
 *
 * @param plans at least one
 * @param needs of the launch's own buffers
 */
record P2pLaunches(PlanContext owner, List<? extends CudaPlan> plans, CudaKernelPlan.Needs needs)
    implements CudaPlan {
  /** The most that one of some plans needs. */
  static CudaKernelPlan.Needs needs(List<CudaPlan> plans) {
    return new CudaKernelPlan.Needs(
        plans.stream().mapToLong(CudaPlan::sendBytes).max().orElse(0),
        plans.stream().mapToLong(CudaPlan::recvBytes).max().orElse(0));
  }

  @Override
  public long sendBytes() {
    return needs.sendBytes();
  }

  @Override
  public long recvBytes() {
    return needs.recvBytes();
  }

  @Override
  public int blocks() {
    return plans.stream().mapToInt(CudaPlan::blocks).max().orElse(0);
  }

  @Override
  public void launch(long send, long recv, GpuStream stream) {
    for (CudaPlan plan : plans) {
      plan.launch(send, recv, stream);
    }
  }

  @Override
  public void discard() {
    plans.forEach(CudaPlan::discard);
  }

  @Override
  public String toString() {
    return plans.stream().map(CudaPlan::toString).collect(Collectors.joining(", then "));
  }
}
