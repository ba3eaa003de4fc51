package org.nccl4j.device.host.reduce;

import org.nccl4j.device.DataType;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;

/** Makes the reduction of a type and an operator. */
public final class Reductions {
  private Reductions() {}

  /**
   * A new reduction, with scratch memory of its own; its calls allocate nothing but a view, once,
   * for a window of memory that it has not met lately.
   *
   * @param ranks how many ranks' elements are combined; only {@link RedOp#AVG} needs it
   */
  public static Reduction of(DataType type, RedOp op, int ranks) {
    if (ranks < 1) {
      throw new InvalidArgumentException(
          ErrorId.RANK,
          "a reduction over " + ranks + " ranks",
          "pass the communicator's number of ranks");
    }
    return switch (type) {
      case INT8 -> int8(op, ranks, true);
      case UINT8 -> int8(op, ranks, false);
      case INT32 -> new Int32Reduction(op, ranks, true);
      case UINT32 -> new Int32Reduction(op, ranks, false);
      case INT64 -> new Int64Reduction(op, ranks, true);
      case UINT64 -> new Int64Reduction(op, ranks, false);
      case FLOAT16 -> new Float16Reduction(op, ranks);
      case FLOAT32 -> new Float32Reduction(op, ranks);
      case FLOAT64 -> new Float64Reduction(op, ranks);
      case BFLOAT16 -> new BFloat16Reduction(op, ranks);
      case FLOAT8_E4M3, FLOAT8_E5M2 -> new Float8Reduction(type, op, ranks);
    };
  }

  /**
   * A new reduction for kernels that combine the operands of all ranks at once. Ranks send their
   * elements as they are if {@link Reduction#hasPrepare()} says so.
   */
  public static Reduction ofAll(DataType type, RedOp op, int ranks) {
    Reduction reduction = of(type, op, ranks);
    return reduction.widens() && reduction.hasPrepare() ? new MeanOfAll(reduction) : reduction;
  }

  /** A new reduction by an operator that is none of the usual ones. */
  public static Reduction of(DataType type, ReductionOperator operator) {
    return operator.combiner() == null
        ? new PreMulSum(type, operator)
        : new UserReduction(type, operator);
  }

  private static Reduction int8(RedOp op, int ranks, boolean signed) {
    boolean orders = op == RedOp.MAX || op == RedOp.MIN;
    return orders ? new Int8Order(op, signed) : new Int8Reduction(op, ranks, signed);
  }
}
