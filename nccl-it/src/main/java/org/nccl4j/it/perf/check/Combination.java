package org.nccl4j.it.perf.check;

import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;

/** All ranks' elements combined, by plain arithmetic in rank order. */
final class Combination {
  private final DataType type;
  private final RedOp op;
  private final int nRanks;
  private final TestValues values;

  Combination(DataType type, RedOp op, int nRanks, TestValues values) {
    this.type = type;
    this.op = op;
    this.nRanks = nRanks;
    this.values = values;
  }

  /** The result for a floating-point type. */
  double floating(long index) {
    double result = values.floating(0, index);
    for (int rank = 1; rank < nRanks; rank++) {
      double next = values.floating(rank, index);
      result =
          switch (op) {
            case SUM, AVG -> result + next;
            case PROD -> result * next;
            case MIN -> Math.min(result, next);
            case MAX -> Math.max(result, next);
          };
    }
    return op == RedOp.AVG ? result / nRanks : result;
  }

  /** The result for an integer type, in its low bits. */
  long integer(long index) {
    long result = fitted(values.integer(0, index));
    for (int rank = 1; rank < nRanks; rank++) {
      long next = fitted(values.integer(rank, index));
      result =
          switch (op) {
            case SUM, AVG -> result + next;
            case PROD -> result * next;
            case MIN -> compare(result, next) <= 0 ? result : next;
            case MAX -> compare(result, next) >= 0 ? result : next;
          };
    }
    return op == RedOp.AVG ? result / nRanks : result;
  }

  private int compare(long one, long other) {
    return type == DataType.UINT64 ? Long.compareUnsigned(one, other) : Long.compare(one, other);
  }

  /** The low bits as the number that the type makes of them. */
  private long fitted(long bits) {
    return switch (type) {
      case INT8 -> (byte) bits;
      case UINT8 -> bits & 0xff;
      case INT32 -> (int) bits;
      case UINT32 -> bits & 0xffffffffL;
      default -> bits;
    };
  }
}
