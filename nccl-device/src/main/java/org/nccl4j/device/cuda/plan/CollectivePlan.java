package org.nccl4j.device.cuda.plan;

import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.kernel.CollectiveWork;

/** A kernel of one collective on all its channels, which may instead share them with its group. */
final class CollectivePlan extends CudaKernelPlan {
  private final ChannelGroup group;
  private final CollectiveWork work;

  /**
   * A plan.
   *
   * @param group where it may be beside others; null if it is always launched alone
   */
  CollectivePlan(
      PlanContext owner,
      Offheap arguments,
      long function,
      CudaKernelPlan.Shape shape,
      CudaKernelPlan.Needs needs,
      CollectiveWork work,
      ChannelGroup group) {
    super(owner, arguments, function, shape, needs);
    this.work = work;
    this.group = group;
  }

  CollectiveWork work() {
    return work;
  }

  @Override
  public WorkGroup group() {
    return group;
  }
}
