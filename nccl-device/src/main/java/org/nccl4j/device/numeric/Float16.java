package org.nccl4j.device.numeric;

import org.nccl4j.device.HotPath;

/** IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits. */
public final class Float16 {
  /** The conversions as an object. */
  public static final ShortFormat FORMAT = new Format();

  /** Bits of positive infinity. */
  public static final short POSITIVE_INFINITY = 0x7c00;

  /** Bits of the NaN that conversions make. */
  public static final short NAN = 0x7fff;

  /** Bits of the greatest finite number, 65504. */
  public static final short MAX_VALUE = 0x7bff;

  private static final int INFINITY = 0x7c00;
  private static final int FLOAT_INFINITY = 0x7f800000;

  /** 65520, half-way between the greatest finite number and the next: the first that overflows. */
  private static final int FLOAT_OVERFLOW = 0x477ff000;

  /** 2 to the -14, the least normal number. */
  private static final int FLOAT_MIN_NORMAL = 0x38800000;

  private static final int FLOAT_HALF = 0x3f000000;
  private static final int REBIAS = (127 - 15) << 23;

  private Float16() {}

  /** The number, exactly. */
  public static float toFloat(short bits) {
    int magnitude = bits & 0x7fff;
    // The exponent keeps its value as a field; the product makes up for the other bias, and brings
    // subnormal numbers into normal form.
    int wide =
        magnitude >= INFINITY
            ? FLOAT_INFINITY | magnitude << 13
            : Float.floatToRawIntBits(Float.intBitsToFloat(magnitude << 13) * 0x1p112f);
    return Float.intBitsToFloat((bits & 0x8000) << 16 | wide);
  }

  /** The nearest number, ties to even; infinite from 65520 on. */
  public static short fromFloat(float x) {
    int bits = Float.floatToRawIntBits(x);
    int sign = bits >>> 16 & 0x8000;
    int magnitude = bits & 0x7fffffff;
    if (magnitude >= FLOAT_OVERFLOW) {
      return magnitude > FLOAT_INFINITY ? NAN : (short) (sign | INFINITY);
    }
    if (magnitude < FLOAT_MIN_NORMAL) {
      // The last place of 0.5 is that of a subnormal number: the sum rounds to it.
      float sum = Float.intBitsToFloat(magnitude) + 0.5f;
      return (short) (sign | (Float.floatToRawIntBits(sum) - FLOAT_HALF));
    }
    int odd = magnitude >>> 13 & 1;
    return (short) (sign | (magnitude - REBIAS + 0xfff + odd) >>> 13);
  }

  /** The nearest number, ties to even; infinite from 65520 on. */
  public static short fromDouble(double x) {
    if (Double.isNaN(x)) {
      return NAN;
    }
    int magnitude =
        Double.isInfinite(x) ? INFINITY : Math.min(Rounding.magnitude(x, 10, -14), INFINITY);
    return (short) ((Double.doubleToRawLongBits(x) >>> 48 & 0x8000) | magnitude);
  }

  /**
   * Widening moves the bits to the fields of a float and leaves the exponent field as it is: the
   * float is the number times 2 to the -112, subnormal where the number is. Sums and quotients of
   * such floats are in proportion and narrow by rounding off 13 bits, whatever their exponent. Of
   * products that is not so: those near the least number would be rounded twice.
   */
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
      return Float16.fromDouble(x);
    }

    @Override
    @HotPath
    public float widen(short bits) {
      return Float.intBitsToFloat(wide(bits & 0x7fff) | (bits << 16 & 0x80000000));
    }

    @Override
    @HotPath
    public short narrow(float x) {
      return (short) half(Float.floatToRawIntBits(x));
    }

    @Override
    public boolean multipliesWide() {
      return false;
    }

    @Override
    @HotPath
    public void widenLow(int[] from, int[] to, int words) {
      for (int i = 0; i < words; i++) {
        to[i] = wide(from[i] & 0x7fff) | (from[i] << 16 & 0x80000000);
      }
    }

    @Override
    @HotPath
    public void widenHigh(int[] from, int[] to, int words) {
      for (int i = 0; i < words; i++) {
        to[i] = wide(from[i] >>> 16 & 0x7fff) | (from[i] & 0x80000000);
      }
    }

    @Override
    @HotPath
    public void narrow(int[] low, int[] high, int[] to, int words) {
      for (int i = 0; i < words; i++) {
        to[i] = half(low[i]) | half(high[i]) << 16;
      }
    }

    /** The magnitude in the fields of a float; of infinity and NaN, in infinity's and NaN's. */
    @HotPath
    private static int wide(int magnitude) {
      return magnitude << 13 | ((MAX_VALUE - magnitude) >> 31 & 0x7f800000);
    }

    /** Rounds off 13 bits. */
    @HotPath
    private static int half(int bits) {
      int magnitude = bits & 0x7fffffff;
      int nan = (0x7f800000 - magnitude) >> 31;
      int excess = magnitude - (POSITIVE_INFINITY << 13);
      int limited = magnitude - (excess & ~(excess >> 31));
      int rounded = (limited + 0xfff + (limited >>> 13 & 1)) >>> 13;
      return rounded | (bits >>> 16 & 0x8000 & ~nan) | (nan & 0x7fff);
    }
  }
}
