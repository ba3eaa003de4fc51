package org.nccl4j.device.numeric;

import org.nccl4j.device.HotPath;

/**
 * OCP FP8 E4M3: 1 sign, 4 exponent and 3 fraction bits; no infinities, and one NaN of each sign.
 *
 * <p>Narrowing saturates: a number past the greatest finite one, infinity too, becomes the greatest
 * with its sign, and NaN stays NaN. So do the constructors of CUDA's {@code __nv_fp8_e4m3} ( {@code
 * __NV_SATFINITE}), with which NCCL's kernels round every result of this type.
 */
public final class Float8E4m3 {
  /** The conversions as an object. */
  public static final ByteFormat FORMAT = new Format();

  /** Bits of the NaN that conversions make. */
  public static final byte NAN = 0x7f;

  /** Bits of the greatest finite number, 448. */
  public static final byte MAX_VALUE = 0x7e;

  private static final int FLOAT_INFINITY = 0x7f800000;

  /** 2 to the -6, the least normal number. */
  private static final int FLOAT_MIN_NORMAL = (127 - 6) << 23;

  private static final int FLOAT_ROUNDER = (127 + 14) << 23;
  private static final int REBIAS = (127 - 7) << 23;

  private Float8E4m3() {}

  /** The number, exactly. */
  public static float toFloat(byte bits) {
    int magnitude = bits & 0x7f;
    // The exponent keeps its value as a field; the product makes up for the other bias.
    float wide = magnitude == NAN ? Float.NaN : Float.intBitsToFloat(magnitude << 20) * 0x1p120f;
    return bits < 0 ? -wide : wide;
  }

  /** The nearest number, ties to even; past the greatest, the greatest. */
  public static byte fromFloat(float x) {
    int bits = Float.floatToRawIntBits(x);
    int magnitude = bits & 0x7fffffff;
    if (magnitude > FLOAT_INFINITY) {
      return NAN;
    }
    int rounded;
    if (magnitude < FLOAT_MIN_NORMAL) {
      // The last place of 2 to the 14 is that of a subnormal number: the sum rounds to it.
      float sum = Float.intBitsToFloat(magnitude) + 0x1p14f;
      rounded = Float.floatToRawIntBits(sum) - FLOAT_ROUNDER;
    } else {
      rounded = (magnitude - REBIAS + 0x7ffff + (magnitude >>> 20 & 1)) >>> 20;
    }
    return (byte) (bits >>> 24 & 0x80 | Math.min(rounded, MAX_VALUE));
  }

  /** The nearest number, ties to even; past the greatest, the greatest. */
  public static byte fromDouble(double x) {
    if (Double.isNaN(x)) {
      return NAN;
    }
    int magnitude =
        Double.isInfinite(x) ? MAX_VALUE : Math.min(Rounding.magnitude(x, 3, -6), MAX_VALUE);
    return (byte) ((Double.doubleToRawLongBits(x) >>> 56 & 0x80) | magnitude);
  }

  private static final class Format implements ByteFormat {
    @Override
    public double toDouble(long bits) {
      return toFloat((byte) bits);
    }

    @Override
    public long fromDouble(double x) {
      return Float8E4m3.fromDouble(x);
    }

    @Override
    @HotPath
    public void narrow(float[] from, byte[] to, int count) {
      for (int i = 0; i < count; i++) {
        to[i] = fromFloat(from[i]);
      }
    }
  }
}
