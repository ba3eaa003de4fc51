package org.nccl4j.device.host.reduce;

import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.numeric.BFloat16;

/**
 * bfloat16. A float holds more than twice its bits and two more, so that rounding a result to float
 * first does not change what it rounds to.
 */
final class BFloat16Reduction extends ShortReduction {
  BFloat16Reduction(RedOp op, int ranks) {
    super(DataType.BFLOAT16, op, ranks, BFloat16.POSITIVE_INFINITY);
  }

  @Override
  @HotPath
  short sum(short a, short b) {
    return BFloat16.fromFloat(BFloat16.toFloat(a) + BFloat16.toFloat(b));
  }

  @Override
  @HotPath
  short product(short a, short b) {
    return BFloat16.fromFloat(BFloat16.toFloat(a) * BFloat16.toFloat(b));
  }

  @Override
  @HotPath
  short quotient(short a) {
    return BFloat16.fromDouble(BFloat16.toDouble(a) / ranks);
  }

  @Override
  @HotPath
  float widen(short a) {
    return BFloat16.toFloat(a);
  }

  @Override
  @HotPath
  short narrow(float a) {
    return BFloat16.fromFloat(a);
  }

  @Override
  @HotPath
  void multiply(int words) {
    multiplyWide(words);
  }

  @Override
  @HotPath
  void widenLow(int[] from, int[] to, int words) {
    for (int i = 0; i < words; i++) {
      to[i] = from[i] << 16;
    }
  }

  @Override
  @HotPath
  void widenHigh(int[] from, int[] to, int words) {
    for (int i = 0; i < words; i++) {
      to[i] = from[i] & 0xffff0000;
    }
  }

  @Override
  @HotPath
  void narrow(int[] low, int[] high, int[] to, int words) {
    for (int i = 0; i < words; i++) {
      to[i] = upperHalf(low[i]) >>> 16 | (upperHalf(high[i]) & 0xffff0000);
    }
  }

  /** Rounds to the upper half; without a branch, so that the loop is vectorised. */
  @HotPath
  private static int upperHalf(int bits) {
    int nan = (0x7f800000 - (bits & 0x7fffffff)) >> 31;
    int rounded = bits + 0x7fff + (bits >>> 16 & 1);
    return (rounded | nan) & ~(nan & 0x80000000);
  }
}
