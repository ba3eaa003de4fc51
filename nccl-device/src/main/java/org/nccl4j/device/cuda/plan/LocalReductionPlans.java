package org.nccl4j.device.cuda.plan;

import org.nccl4j.device.DeviceMemory;
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

  /**
   * The number of elements of a copy, in device memory. Then copies lie one behind the other.
   *
   * @param memory of one number
   * @param wide true if it is an int64, false for int32
   * @param values elements of the reduction in each that the number counts
   */
  public record Counted(DeviceMemory memory, boolean wide, int values) {}

  /** Prepares a reduction. */
  public CudaKernelPlan prepare(LocalReduction work) {
    return plan(
        work,
        arguments(work),
        work.count() == 0,
        new CudaKernelPlan.Needs(work.sendBytes(), work.recvBytes()));
  }

  /**
   * Prepares a reduction of copies whose number of elements the device knows.
   *
   * @param work with the most elements as count; its stride is not looked at
   */
  public CudaKernelPlan prepare(LocalReduction work, Counted counted) {
    Offheap arguments =
        arguments(work)
            .putLong(ReductionArguments.COUNTED, counted.memory().address())
            .putInt(ReductionArguments.WIDE, counted.wide() ? 1 : 0)
            .putInt(ReductionArguments.VALUES, counted.values());
    return plan(work, arguments, /* empty= */ false, new CudaKernelPlan.Needs(0, 0));
  }

  private Offheap arguments(LocalReduction work) {
    Offheap arguments = context.offheap().take(ReductionArguments.SIZE);
    context.memory().putCommunicator(arguments);
    return arguments
        .putLong(ReductionArguments.STRIDE, work.stride())
        .putLong(ReductionArguments.COUNT, work.count())
        .putInt(ReductionArguments.COPIES, work.copies());
  }

  private CudaKernelPlan plan(
      LocalReduction work, Offheap arguments, boolean empty, CudaKernelPlan.Needs needs) {
    long function = context.kernels().functors().function(work, context.spec().launching().nvrtc());
    return new CudaKernelPlan(
        context,
        arguments,
        empty ? 0 : function,
        new CudaKernelPlan.Shape(blocks(work), THREADS, 0),
        needs);
  }

  private int blocks(LocalReduction work) {
    int most = context.gpu().multiprocessors() * BLOCKS_OF_PROCESSOR;
    int allowed = work.mostBlocks() == 0 ? most : Math.min(most, work.mostBlocks());
    long ofBlock = (long) THREADS * Math.max(1, UNIT / work.elementBytes());
    long wanted = (work.count() + ofBlock - 1) / ofBlock;
    return (int) Math.max(1, Math.min(allowed, wanted));
  }
}
