package org.nccl4j.device.cuda.window;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.cuda.plan.CudaKernelPlan;
import org.nccl4j.device.cuda.plan.PlanContext;
import org.nccl4j.device.kernel.ExpertKernels;
import org.nccl4j.device.kernel.ExpertSizes;
import org.nccl4j.device.kernel.KernelPlan;

/** The steps of an exchange with experts by sends and receives on a GPU, a kernel each. */
final class ExpertPackPlans implements ExpertKernels.Steps {
  private static final String ROWS = "nccl4j_expert_rows";
  private static final int THREADS = 512; // NCCL4J_EXPERT_PACK_THREADS
  private static final int BLOCKS_OF_PROCESSOR = 2; // experts::kPackBlocks

  private final PlanContext context;
  private final ExpertSizes sizes;
  private final int blocks;
  private final CudaKernelPlan pack;
  private final CudaKernelPlan forward;
  private final CudaKernelPlan place;
  private final CudaKernelPlan gather;
  private final CudaKernelPlan add;

  /**
   * Prepares the steps.
   *
   * @param mostBlocks of a kernel; 0 for no limit
   */
  ExpertPackPlans(PlanContext context, ExpertSizes sizes, int mostBlocks) {
    this.context = context;
    this.sizes = sizes;
    int most = context.gpu().multiprocessors() * BLOCKS_OF_PROCESSOR;
    this.blocks = mostBlocks == 0 ? most : Math.min(most, mostBlocks);
    long token = sizes.rowBytes();
    long travelling = sizes.travelBytes();
    pack = plan(sizes.fp8() ? "nccl4j_expert_fp8" : ROWS, token, travelling, sizes.wireBytes());
    forward = plan(ROWS, travelling, travelling, travelling);
    place = plan(ROWS, travelling, sizes.wireBytes(), sizes.wireBytes());
    gather = plan(ROWS, token, token, token);
    add = plan("nccl4j_expert_sum", token, token, token);
  }

  /** A plan of rows, with the bytes from one that is read to the next, and of those written. */
  private CudaKernelPlan plan(String kernel, long from, long to, long bytes) {
    Offheap arguments = context.offheap().take(ExpertPackArguments.SIZE);
    context.memory().putCommunicator(arguments);
    arguments
        .putLong(ExpertPackArguments.TARGETS, 0)
        .putLong(ExpertPackArguments.SCALES, 0)
        .putLong(ExpertPackArguments.FROM, from)
        .putLong(ExpertPackArguments.TO, to)
        .putInt(ExpertPackArguments.ROW_BYTES, (int) bytes)
        .putInt(ExpertPackArguments.GROUPS, sizes.scales())
        .putInt(ExpertPackArguments.TOP_K, sizes.topK());
    return new CudaKernelPlan(
        context,
        arguments,
        context.kernels().experts(sizes.type(), kernel),
        new CudaKernelPlan.Shape(blocks, THREADS, 0),
        new CudaKernelPlan.Needs(0, 0)); // callers know the sizes of a call
  }

  private static KernelPlan with(CudaKernelPlan plan, DeviceMemory items, long count) {
    plan.arguments()
        .putLong(ExpertPackArguments.ITEMS, items == null ? 0 : items.address())
        .putLong(ExpertPackArguments.COUNT, count);
    return plan;
  }

  @Override
  public KernelPlan pack(DeviceMemory tokens, DeviceMemory targets, long count) {
    pack.arguments().putLong(ExpertPackArguments.TARGETS, targets.address());
    return with(pack, tokens, count);
  }

  @Override
  public KernelPlan forward(DeviceMemory from, DeviceMemory targets, long count) {
    forward.arguments().putLong(ExpertPackArguments.TARGETS, targets.address());
    return with(forward, from, count);
  }

  @Override
  public KernelPlan place(DeviceMemory from, DeviceMemory scales, long count) {
    place.arguments().putLong(ExpertPackArguments.SCALES, sizes.fp8() ? scales.address() : 0);
    return with(place, from, count);
  }

  @Override
  public KernelPlan gather(DeviceMemory targets, long count) {
    gather.arguments().putLong(ExpertPackArguments.TARGETS, targets.address());
    return with(gather, null, count);
  }

  @Override
  public KernelPlan add(DeviceMemory places, DeviceMemory weights, long tokens) {
    add.arguments().putLong(ExpertPackArguments.WEIGHTS, weights.address());
    return with(add, places, tokens);
  }

  @Override
  public void discard() {
    pack.discard();
    forward.discard();
    place.discard();
    gather.discard();
    add.discard();
  }
}
