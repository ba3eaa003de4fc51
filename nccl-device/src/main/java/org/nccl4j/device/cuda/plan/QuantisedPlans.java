package org.nccl4j.device.cuda.plan;

import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.kernel.QuantisedWork;
import org.nccl4j.device.kernel.QuantisedWork.Step;

/** The steps of quantised sums on a GPU, a kernel each. */
public final class QuantisedPlans {
  private static final int THREADS = 256; // NCCL4J_QUANTISE_THREADS

  /** Bytes of elements that a thread has at once. */
  private static final int UNIT = 16;

  private static final int BLOCKS_OF_PROCESSOR = 4; // quantise::kBlocks

  private final PlanContext context;

  public QuantisedPlans(PlanContext context) {
    this.context = context;
  }

  /** Prepares a step. */
  public CudaKernelPlan prepare(QuantisedWork work) {
    QuantisedWork.Parts parts = work.parts();
    DeviceMemory residual = work.residual();
    Offheap arguments = context.offheap().take(QuantiseArguments.SIZE);
    context.memory().putCommunicator(arguments);
    arguments
        .putLong(QuantiseArguments.RESIDUAL, residual == null ? 0 : residual.address())
        .putLong(QuantiseArguments.COUNT, parts.count())
        .putLong(QuantiseArguments.PART, parts.part())
        .putLong(QuantiseArguments.PART_BYTES, parts.bytes())
        .putLong(QuantiseArguments.BLOCKS, parts.blocks())
        .putLong(QuantiseArguments.COPY_BYTES, work.copies().stride())
        .putInt(QuantiseArguments.N_PARTS, parts.nParts())
        .putInt(QuantiseArguments.BLOCK, parts.block())
        .putInt(QuantiseArguments.INT8, parts.format() == DataType.INT8 ? 1 : 0)
        .putInt(QuantiseArguments.DIVISOR, parts.divisor())
        .putInt(QuantiseArguments.QUANTISES, work.step() == Step.SUM_AND_QUANTISE ? 1 : 0)
        .putInt(QuantiseArguments.INDEX, work.index())
        .putInt(QuantiseArguments.COPIES, work.copies().number());
    boolean ofAll = work.step() == Step.QUANTISE || work.step() == Step.DEQUANTISE;
    return new CudaKernelPlan(
        context,
        arguments,
        context.kernels().quantised(parts.type(), kernel(work.step())),
        new CudaKernelPlan.Shape(
            blocks(work, parts.scales() * (ofAll ? parts.nParts() : 1)), THREADS, 0),
        new CudaKernelPlan.Needs(work.sendBytes(), work.recvBytes()));
  }

  private static String kernel(Step step) {
    return switch (step) {
      case QUANTISE -> "nccl4j_quantise";
      case SUM, SUM_AND_QUANTISE -> "nccl4j_quantised_sum";
      case DEQUANTISE -> "nccl4j_dequantise";
    };
  }

  private int blocks(QuantisedWork work, long elements) {
    int most = context.gpu().multiprocessors() * BLOCKS_OF_PROCESSOR;
    int allowed = work.mostBlocks() == 0 ? most : Math.min(most, work.mostBlocks());
    long ofBlock = (long) THREADS * UNIT / work.parts().type().bytes();
    long wanted = (elements + ofBlock - 1) / ofBlock;
    return (int) Math.max(1, Math.min(allowed, wanted));
  }
}
