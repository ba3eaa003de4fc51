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
  void combineFew(int count) {
    short[] a = leftFew;
    short[] b = rightFew;
    switch (op) {
      case SUM, AVG -> {
        for (int i = 0; i < count; i++) {
          a[i] = Float16.fromFloat(Float16.toFloat(a[i]) + Float16.toFloat(b[i]));
        }
      }
      case PROD -> {
        for (int i = 0; i < count; i++) {
          a[i] = product(a[i], b[i]);
        }
      }
      case MAX -> ShortOrder.greatest(a, b, Float16.POSITIVE_INFINITY, count);
      case MIN -> ShortOrder.least(a, b, Float16.POSITIVE_INFINITY, count);
    }
  }

  @Override
  @HotPath
  void divideFew(int count) {
    for (int i = 0; i < count; i++) {
      leftFew[i] = quotient(leftFew[i]);
    }
  }

  @Override
  @HotPath
  short quotient(short bits) {
    return Float16.fromDouble(Float16.toDouble(bits) / ranks);
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

  @HotPath
  private static short product(short a, short b) {
    return Float16.fromFloat(Float16.toFloat(a) * Float16.toFloat(b));
  }

  @Override
  @HotPath
  void widen(int[] from, int[] to, int words) {
    for (int i = 0; i < words; i++) {
      to[i] = wide(from[i] & 0x7fff) | (from[i] << 16 & 0x80000000);
    }
    for (int i = 0; i < words; i++) {
      to[words + i] = wide(from[i] >>> 16 & 0x7fff) | (from[i] & 0x80000000);
    }
  }

  /** The magnitude in the fields of a float; of infinity and NaN, in infinity's and NaN's. */
  @HotPath
  private static int wide(int magnitude) {
    return magnitude << 13 | ((Float16.MAX_VALUE - magnitude) >> 31 & 0x7f800000);
  }

  @Override
  @HotPath
  void narrow(int[] from, int[] to, int words) {
    for (int i = 0; i < words; i++) {
      to[i] = half(from[i]) | half(from[words + i]) << 16;
    }
  }

  /** Rounds off 13 bits; without a branch, so that the loop is vectorised. */
  @HotPath
  private static int half(int bits) {
    int magnitude = bits & 0x7fffffff;
    int nan = (0x7f800000 - magnitude) >> 31;
    int limited = Math.min(magnitude, Float16.POSITIVE_INFINITY << 13);
    int rounded = (limited + 0xfff + (limited >>> 13 & 1)) >>> 13;
    return rounded | (bits >>> 16 & 0x8000 & ~nan) | (nan & 0x7fff);
  }
}
