package org.nccl4j.device.cuda.window;

import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.plan.PlanContext;
import org.nccl4j.device.cuda.plan.WorkGroup;

/** An LL kernel of one operation, which can be fused with others of its group. */
final class LinePlan extends CudaKernelPlan {
  private final LineGroup group;
  private final Work work;

  /**
   * The operation, as a kernel of several has it.
   *
   * @param kernel that runs several
   * @param operation number of the operation
   * @param op number of the operator
   * @param root of operations with one, else 0
   * @param bytes of count elements
   * @param signature of the call
   * @param shape of the kernel of this operation alone
   * @param mostBlocks of a kernel; 0 for no limit
   */
  record Work(
      long kernel,
      int operation,
      int op,
      int root,
      long bytes,
      int signature,
      CudaKernelPlan.Shape shape,
      int mostBlocks) {}

  /**
   * A plan.
   *
   * @param arguments of the kernel of this operation alone, the plan's from now on
   * @param function that kernel
   */
  LinePlan(
      PlanContext owner,
      Offheap arguments,
      long function,
      CudaKernelPlan.Needs needs,
      LineGroup group,
      Work work) {
    super(owner, arguments, function, work.shape, needs);
    this.group = group;
    this.work = work;
  }

  Work work() {
    return work;
  }

  @Override
  public WorkGroup group() {
    return group;
  }
}
