package org.nccl4j.device.numeric;

/**
 * OCP FP8 E4M3: 1 sign, 4 exponent and 3 fraction bits; no infinities, and one NaN of each sign.
 *
 * <p>Narrowing saturates: what is past the greatest finite number, infinity too, becomes that
 * number with its sign, and NaN stays NaN. So do the constructors of CUDA's {@code __nv_fp8_e4m3} (
 * {@code __NV_SATFINITE}), with which NCCL's kernels round every result of this type.
 */
public final class Float8E4M3 {
  /** Bits of the NaN that conversions make. */
  public static final byte NAN = 0x7f;

  /** Bits of the greatest finite number, 448. */
  public static final byte MAX_VALUE = 0x7e;

  private Float8E4M3() {}

  /** The number, exactly. */
  public static float toFloat(byte bits) {
    int magnitude = bits & 0x7f;
    // The exponent keeps its value as a field; the product makes up for the other bias.
    float wide = magnitude == NAN ? Float.NaN : Float.intBitsToFloat(magnitude << 20) * 0x1p120f;
    return bits < 0 ? -wide : wide;
  }

  /** The nearest number, ties to even; past the greatest, the greatest. */
  public static byte fromFloat(float x) {
    return fromDouble(x);
  }

  /** The number, exactly. */
  public static double toDouble(byte bits) {
    return toFloat(bits);
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

  /** True if the bits are those of a NaN. */
  public static boolean isNaN(byte bits) {
    return (bits & 0x7f) == NAN;
  }
}
