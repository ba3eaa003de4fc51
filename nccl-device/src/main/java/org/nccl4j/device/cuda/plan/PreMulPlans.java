package org.nccl4j.device.cuda.plan;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.kernel.CallSignature;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.numeric.ElementWriter;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Pre-multiplied sums: the kernels of collectives on connections, told this rank's scalar, which
 * they multiply the rank's own elements by when they read them.
 */
public final class PreMulPlans {
  private static final int MOST_CHANNELS = 64;
  private static final int ALONE_SHARE = 64 << 10;
  private static final int ALONE_SLICE = 256 << 10;

  private final PlanContext context;
  private final KernelCommunicatorSpec spec;
  private final CommunicatorMemory memory;
  private final CollectivePlans collectives;

  public PreMulPlans(PlanContext context, CollectivePlans collectives) {
    this.context = context;
    this.spec = context.spec();
    this.memory = context.memory();
    this.collectives = collectives;
  }

  /** True if an algorithm has steps that scale what a rank reads of its own. */
  public static boolean has(Algorithm algorithm) {
    return switch (algorithm) {
      case TREE, RING, ONE_SHOT, PAT, HIERARCHICAL -> true;
      default -> false;
    };
  }

  public CudaKernelPlan prepare(CollectiveWork work, ReductionOperator operator) {
    check(work, operator);
    CudaKernelPlan plan = spec.nRanks() == 1 ? alone(work) : collectives.prepare(work);
    plan.arguments()
        .putInt(KernelLayout.OPERATOR, KernelLayout.PREMUL)
        .putInt(KernelLayout.SIGNATURE, CallSignature.of(work.shape(), work.count(), operator));
    if (operator.memory() != null) {
      plan.arguments().putLong(KernelLayout.SCALAR_ADDRESS, operator.memory().address());
    } else {
      ByteBuffer scalar = ByteBuffer.allocate(8).order(ByteOrder.nativeOrder());
      ElementWriter.put(scalar, operator);
      plan.arguments().putLong(KernelLayout.SCALAR, scalar.getLong(0));
    }
    return plan;
  }

  private void check(CollectiveWork work, ReductionOperator operator) {
    if (operator.isFunction()) {
      throw new InvalidUsageException(
          ErrorId.UNSUPPORTED,
          "this device has no reduction '%s'".formatted(operator.name()),
          "use an operator of RedOp or ReductionOperator.preMulSum; communicators reduce by"
              + " functions in steps");
    }
    if (operator.type() != work.type()) {
      throw new InvalidArgumentException(
          ErrorId.TYPE,
          "a pre-multiplied sum of %s is used for elements of %s"
              .formatted(operator.type().label(), work.type().label()),
          "create it for the type of the elements");
    }
    DeviceMemory scalar = operator.memory();
    if (scalar != null && scalar.device() != context.gpu().device()) {
      throw new InvalidArgumentException(
          ErrorId.BUFFER,
          "the scalar's memory belongs to " + scalar.device().name(),
          "allocate it on " + context.gpu().name());
    }
    if (!work.operation().reduces() || !has(work.algorithm())) {
      throw new InvalidArgumentException(
          ErrorId.ALGORITHM,
          "%s has no pre-multiplied sum by %s"
              .formatted(work.operation().label(), work.algorithm().label()),
          "use Ring, Tree, OneShot, PAT or Hierarchical");
    }
  }

  /** With one rank all of them are a reduction to it of what only it has, which nobody sends. */
  private CudaKernelPlan alone(CollectiveWork work) {
    long bytes = Math.multiplyExact(work.count(), (long) work.type().bytes());
    int channels = (int) Math.max(1, Math.min(work.limit(MOST_CHANNELS), bytes / ALONE_SHARE));
    Offheap arguments = context.offheap().take(KernelLayout.COLLECTIVE_BYTES);
    memory.putCommunicator(arguments);
    arguments
        .putLong(KernelLayout.BYTES, bytes)
        .putInt(KernelLayout.COLLECTIVE, Operation.REDUCE.ordinal())
        .putInt(KernelLayout.ALGORITHM, Algorithm.ONE_SHOT.ordinal())
        .putInt(KernelLayout.N_CHANNELS, channels)
        .putInt(KernelLayout.SLICE_BYTES, ALONE_SLICE);
    return new CudaKernelPlan(
        context,
        arguments,
        bytes == 0
            ? 0
            : context
                .kernels()
                .collective(Operation.REDUCE, work.type(), Algorithm.ONE_SHOT, Protocol.SIMPLE),
        new CudaKernelPlan.Shape(channels, KernelLayout.SIMPLE_THREADS, 1),
        CudaKernelPlan.Needs.of(work, spec.rank(), 1, bytes));
  }
}
