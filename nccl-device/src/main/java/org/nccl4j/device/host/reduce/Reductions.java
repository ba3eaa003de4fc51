package org.nccl4j.device.host.reduce;

import org.nccl4j.device.DataType;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.numeric.ByteFormat;
import org.nccl4j.device.numeric.FloatFormat;
import org.nccl4j.device.numeric.ShortFormat;

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
    if (type.isFloatingPoint()) {
      return ofFloats(type, op, ranks);
    }
    return switch (type) {
      case INT8 -> int8(op, ranks, true);
      case UINT8 -> int8(op, ranks, false);
      case INT32 -> new Int32Reduction(op, ranks, true);
      case UINT32 -> new Int32Reduction(op, ranks, false);
      case INT64 -> new Int64Reduction(op, ranks, true);
      case UINT64 -> new Int64Reduction(op, ranks, false);
      default -> throw new IllegalArgumentException(type.label());
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

  /** A new reduction by an operator of the user's. */
  public static Reduction of(DataType type, ReductionOperator operator) {
    return operator.isFunction()
        ? new UserReduction(type, operator)
        : new PreMulSum(type, operator);
  }

  private static Reduction ofFloats(DataType type, RedOp op, int ranks) {
    FloatFormat format = FloatFormat.of(type);
    if (format instanceof ByteFormat) {
      return new Float8Reduction(type, op, ranks);
    }
    if (format instanceof ShortFormat) {
      return new ShortReduction(type, op, ranks);
    }
    return type == DataType.FLOAT32
        ? new Float32Reduction(op, ranks)
        : new Float64Reduction(op, ranks);
  }

  private static Reduction int8(RedOp op, int ranks, boolean signed) {
    boolean orders = op == RedOp.MAX || op == RedOp.MIN;
    return orders ? new Int8Order(op, signed) : new Int8Reduction(op, ranks, signed);
  }
}
