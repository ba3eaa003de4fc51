package org.nccl4j.device.numeric;

/** bfloat16, the upper half of a binary32: 1 sign, 8 exponent and 7 fraction bits. */
public final class BFloat16 {
  /** Bits of positive infinity. */
  public static final short POSITIVE_INFINITY = 0x7f80;

  /** Bits of the NaN that conversions make. */
  public static final short NAN = 0x7fff;

  /** Bits of the greatest finite number. */
  public static final short MAX_VALUE = 0x7f7f;

  private static final int INFINITY = 0x7f80;

  private BFloat16() {}

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

  /** The number, exactly. */
  public static double toDouble(short bits) {
    return toFloat(bits);
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

  /** True if the bits are those of a NaN. */
  public static boolean isNaN(short bits) {
    return (bits & 0x7fff) > INFINITY;
  }
}
