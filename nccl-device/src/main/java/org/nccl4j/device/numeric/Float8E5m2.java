package org.nccl4j.device.numeric;

import org.nccl4j.device.HotPath;

/**
 * OCP FP8 E5M2, the upper half of a binary16: 1 sign, 5 exponent and 2 fraction bits; with
 * infinities.
 *
 * <p>Narrowing saturates: a number past the greatest finite one, infinity too, becomes the greatest
 * with its sign, and NaN stays NaN. So do the constructors of CUDA's {@code __nv_fp8_e5m2} ( {@code
 * __NV_SATFINITE}), with which NCCL's kernels round every result of this type.
 */
public final class Float8E5m2 {
  /** The conversions as an object. */
  public static final ByteFormat FORMAT = new Format();

  /** Bits of the NaN that conversions make. */
  public static final byte NAN = 0x7f;

  /** Bits of the greatest finite number, 57344. */
  public static final byte MAX_VALUE = 0x7b;

  private static final int FLOAT_INFINITY = 0x7f800000;

  /** 2 to the -14, the least normal number. */
  private static final int FLOAT_MIN_NORMAL = (127 - 14) << 23;

  private static final int FLOAT_ROUNDER = (127 + 7) << 23;
  private static final int REBIAS = (127 - 15) << 23;

  private Float8E5m2() {}

  /** The number, exactly. */
  public static float toFloat(byte bits) {
    return Float16.toFloat((short) (bits << 8));
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
      // The last place of 2 to the 7 is that of a subnormal number: the sum rounds to it.
      float sum = Float.intBitsToFloat(magnitude) + 0x1p7f;
      rounded = Float.floatToRawIntBits(sum) - FLOAT_ROUNDER;
    } else {
      rounded = (magnitude - REBIAS + 0xfffff + (magnitude >>> 21 & 1)) >>> 21;
    }
    return (byte) (bits >>> 24 & 0x80 | Math.min(rounded, MAX_VALUE));
  }

  /** The nearest number, ties to even; past the greatest, the greatest. */
  public static byte fromDouble(double x) {
    if (Double.isNaN(x)) {
      return NAN;
    }
    int magnitude =
        Double.isInfinite(x) ? MAX_VALUE : Math.min(Rounding.magnitude(x, 2, -14), MAX_VALUE);
    return (byte) ((Double.doubleToRawLongBits(x) >>> 56 & 0x80) | magnitude);
  }

  private static final class Format implements ByteFormat {
    @Override
    public double toDouble(long bits) {
      return toFloat((byte) bits);
    }

    @Override
    public long fromDouble(double x) {
      return Float8E5m2.fromDouble(x);
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
