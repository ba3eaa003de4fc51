package org.nccl4j.device.cuda.plan;

import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.kernel.KernelCommunicator.LocalReduction;

/** Reductions of copies in a rank's own memory by users' functors, a kernel each. */
public final class LocalReductionPlans {
  private static final int THREADS = 256; // nccl4j_reduction::kThreads
  private static final int BLOCKS_OF_PROCESSOR = 4;

  /** Bytes of elements that a thread has at once. */
  private static final int UNIT = 16;

  private final PlanContext context;

  public LocalReductionPlans(PlanContext context) {
    this.context = context;
  }

  /** Prepares a reduction. */
  public CudaKernelPlan prepare(LocalReduction work) {
    long function = context.kernels().functors().function(work, context.spec().launching().nvrtc());
    Offheap arguments = context.offheap().take(ReductionArguments.SIZE);
    context.memory().putCommunicator(arguments);
    arguments
        .putLong(ReductionArguments.STRIDE, work.stride())
        .putLong(ReductionArguments.COUNT, work.count())
        .putInt(ReductionArguments.COPIES, work.copies());
    return new CudaKernelPlan(
        context,
        arguments,
        work.count() == 0 ? 0 : function,
        new CudaKernelPlan.Shape(blocks(work), THREADS, 0),
        new CudaKernelPlan.Needs(work.sendBytes(), work.recvBytes()));
  }

  private int blocks(LocalReduction work) {
    int most = context.gpu().multiprocessors() * BLOCKS_OF_PROCESSOR;
    int allowed = work.mostBlocks() == 0 ? most : Math.min(most, work.mostBlocks());
    long ofBlock = (long) THREADS * Math.max(1, UNIT / work.elementBytes());
    long wanted = (work.count() + ofBlock - 1) / ofBlock;
    return (int) Math.max(1, Math.min(allowed, wanted));
  }
}
