package org.nccl4j.device.host.reduce;

import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.numeric.Float16;

/**
 * float16. A float holds twice its bits and two more, so that rounding a result to float first does
 * not change what it rounds to.
 *
 * <p>Widening moves the bits to the fields of a float and leaves the exponent field as it is: the
 * float is the number times 2 to the -112, subnormal where the number is. Sums and quotients of
 * such floats are in proportion and narrow by rounding off 13 bits, whatever their exponent. Of
 * products that is not so: those near the least number would be rounded twice.
 */
final class Float16Reduction extends ShortReduction {
  Float16Reduction(RedOp op, int ranks) {
    super(DataType.FLOAT16, op, ranks, Float16.POSITIVE_INFINITY);
  }

  @Override
  @HotPath
  short sum(short a, short b) {
    return Float16.fromFloat(Float16.toFloat(a) + Float16.toFloat(b));
  }

  @Override
  @HotPath
  short product(short a, short b) {
    return Float16.fromFloat(Float16.toFloat(a) * Float16.toFloat(b));
  }

  @Override
  @HotPath
  short quotient(short a) {
    return Float16.fromDouble(Float16.toDouble(a) / ranks);
  }

  @Override
  @HotPath
  float widen(short a) {
    return adds
        ? Float.intBitsToFloat(wide(a & 0x7fff) | (a << 16 & 0x80000000))
        : Float16.toFloat(a);
  }

  @Override
  @HotPath
  short narrow(float a) {
    return adds ? (short) half(Float.floatToRawIntBits(a)) : Float16.fromFloat(a);
  }

  @Override
  @HotPath
  void multiply(int words) {
    for (int i = 0; i < words; i++) {
      int low = product((short) left[i], (short) right[i]);
      int high = product((short) (left[i] >> 16), (short) (right[i] >> 16));
      left[i] = (low & 0xffff) | high << 16;
    }
  }

  @Override
  @HotPath
  void widenLow(int[] from, int[] to, int words) {
    for (int i = 0; i < words; i++) {
      to[i] = wide(from[i] & 0x7fff) | (from[i] << 16 & 0x80000000);
    }
  }

  @Override
  @HotPath
  void widenHigh(int[] from, int[] to, int words) {
    for (int i = 0; i < words; i++) {
      to[i] = wide(from[i] >>> 16 & 0x7fff) | (from[i] & 0x80000000);
    }
  }

  /** The magnitude in the fields of a float; of infinity and NaN, in infinity's and NaN's. */
  @HotPath
  private static int wide(int magnitude) {
    return magnitude << 13 | ((Float16.MAX_VALUE - magnitude) >> 31 & 0x7f800000);
  }

  @Override
  @HotPath
  void narrow(int[] low, int[] high, int[] to, int words) {
    for (int i = 0; i < words; i++) {
      to[i] = half(low[i]) | half(high[i]) << 16;
    }
  }

  /** Rounds off 13 bits; without a branch, so that the loop is vectorised. */
  @HotPath
  private static int half(int bits) {
    int magnitude = bits & 0x7fffffff;
    int nan = (0x7f800000 - magnitude) >> 31;
    int excess = magnitude - (Float16.POSITIVE_INFINITY << 13);
    int limited = magnitude - (excess & ~(excess >> 31));
    int rounded = (limited + 0xfff + (limited >>> 13 & 1)) >>> 13;
    return rounded | (bits >>> 16 & 0x8000 & ~nan) | (nan & 0x7fff);
  }
}
