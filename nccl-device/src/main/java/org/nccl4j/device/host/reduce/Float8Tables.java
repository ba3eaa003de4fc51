package org.nccl4j.device.host.reduce;

import java.util.concurrent.atomic.AtomicReferenceArray;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.numeric.FloatFormat;

/** Results of the operators on float8, made when first asked for and shared by all reductions. */
final class Float8Tables {
  private static final int OPERATORS = RedOp.values().length;

  private static final AtomicReferenceArray<byte[]> PAIRS =
      new AtomicReferenceArray<>(DataType.values().length * OPERATORS);

  private Float8Tables() {}

  /** The result for a and b, at a times 256 plus b. Threads that race make the same table. */
  static byte[] pairs(DataType type, RedOp op) {
    int slot = type.ordinal() * OPERATORS + op.ordinal();
    byte[] table = PAIRS.get(slot);
    if (table == null) {
      table = new byte[1 << 16];
      for (int pair = 0; pair < table.length; pair++) {
        float a = toFloat(type, (byte) (pair >> 8));
        float b = toFloat(type, (byte) pair);
        table[pair] = fromDouble(type, combine(op, a, b));
      }
      PAIRS.set(slot, table);
    }
    return table;
  }

  /** The quotient of each number and a divisor. */
  static byte[] quotients(DataType type, int divisor) {
    byte[] table = new byte[1 << 8];
    for (int bits = 0; bits < table.length; bits++) {
      table[bits] = fromDouble(type, (double) toFloat(type, (byte) bits) / divisor);
    }
    return table;
  }

  /** The quotient of each number and a divisor, in float. */
  static float[] wide(DataType type, int divisor) {
    float[] table = new float[1 << 8];
    for (int bits = 0; bits < table.length; bits++) {
      table[bits] = toFloat(type, (byte) bits) / divisor;
    }
    return table;
  }

  /** Exact, or so close that the rounding to float8 comes out the same: 24 bits hold 2 x 4 + 2. */
  private static float combine(RedOp op, float a, float b) {
    return switch (op) {
      case SUM, AVG -> a + b;
      case PROD -> a * b;
      case MAX -> Float.isNaN(a) ? b : Float.isNaN(b) ? a : Math.max(a, b);
      case MIN -> Float.isNaN(a) ? b : Float.isNaN(b) ? a : Math.min(a, b);
    };
  }

  private static float toFloat(DataType type, byte bits) {
    return (float) FloatFormat.of(type).toDouble(bits);
  }

  private static byte fromDouble(DataType type, double x) {
    return (byte) FloatFormat.of(type).fromDouble(x);
  }
}
