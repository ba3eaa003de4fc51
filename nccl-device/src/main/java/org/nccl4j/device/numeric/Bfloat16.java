package org.nccl4j.device.numeric;

import org.nccl4j.device.HotPath;

/** bfloat16, the upper half of a binary32: 1 sign, 8 exponent and 7 fraction bits. */
public final class Bfloat16 {
  /** The conversions as an object. */
  public static final ShortFormat FORMAT = new Format();

  /** Bits of positive infinity. */
  public static final short POSITIVE_INFINITY = 0x7f80;

  /** Bits of the NaN that conversions make. */
  public static final short NAN = 0x7fff;

  /** Bits of the greatest finite number. */
  public static final short MAX_VALUE = 0x7f7f;

  private static final int INFINITY = 0x7f80;

  private Bfloat16() {}

  /** The number, exactly. */
  public static float toFloat(short bits) {
    return Float.intBitsToFloat(bits << 16);
  }

  /**
   * The nearest number, ties to even; infinite past the greatest by half its last place or more.
   */
  public static short fromFloat(float x) {
    int bits = Float.floatToRawIntBits(x);
    if ((bits & 0x7fffffff) > 0x7f800000) {
      return NAN;
    }
    return (short) ((bits + 0x7fff + (bits >>> 16 & 1)) >>> 16);
  }

  /**
   * The nearest number, ties to even; infinite past the greatest by half its last place or more.
   */
  public static short fromDouble(double x) {
    if (Double.isNaN(x)) {
      return NAN;
    }
    int magnitude =
        Double.isInfinite(x) ? INFINITY : Math.min(Rounding.magnitude(x, 7, -126), INFINITY);
    return (short) ((Double.doubleToRawLongBits(x) >>> 48 & 0x8000) | magnitude);
  }

  private static final class Format extends ShortFormat {
    @Override
    public short infinity() {
      return POSITIVE_INFINITY;
    }

    @Override
    @HotPath
    public float value(short bits) {
      return toFloat(bits);
    }

    @Override
    @HotPath
    public short nearest(float x) {
      return fromFloat(x);
    }

    @Override
    @HotPath
    public long fromDouble(double x) {
      return Bfloat16.fromDouble(x);
    }

    @Override
    @HotPath
    public float widen(short bits) {
      return toFloat(bits);
    }

    @Override
    @HotPath
    public short narrow(float x) {
      return fromFloat(x);
    }

    @Override
    public boolean multipliesWide() {
      return true;
    }

    @Override
    @HotPath
    public void widenLow(int[] from, int[] to, int words) {
      for (int i = 0; i < words; i++) {
        to[i] = from[i] << 16;
      }
    }

    @Override
    @HotPath
    public void widenHigh(int[] from, int[] to, int words) {
      for (int i = 0; i < words; i++) {
        to[i] = from[i] & 0xffff0000;
      }
    }

    @Override
    @HotPath
    public void narrow(int[] low, int[] high, int[] to, int words) {
      for (int i = 0; i < words; i++) {
        to[i] = upperHalf(low[i]) >>> 16 | (upperHalf(high[i]) & 0xffff0000);
      }
    }

    /** Rounds to the upper half. */
    @HotPath
    private static int upperHalf(int bits) {
      int nan = (0x7f800000 - (bits & 0x7fffffff)) >> 31;
      int rounded = bits + 0x7fff + (bits >>> 16 & 1);
      return (rounded | nan) & ~(nan & 0x80000000);
    }
  }
}
