package org.nccl4j.device.numeric;

/**
 * OCP FP8 E5M2, the upper half of a binary16: 1 sign, 5 exponent and 2 fraction bits; with
 * infinities.
 *
 * <p>Narrowing saturates: what is past the greatest finite number, infinity too, becomes that
 * number with its sign, and NaN stays NaN. So do the constructors of CUDA's {@code __nv_fp8_e5m2} (
 * {@code __NV_SATFINITE}), with which NCCL's kernels round every result of this type.
 */
public final class Float8E5M2 {
  /** Bits of the NaN that conversions make. */
  public static final byte NAN = 0x7f;

  /** Bits of the greatest finite number, 57344. */
  public static final byte MAX_VALUE = 0x7b;

  private Float8E5M2() {}

  /** The number, exactly. */
  public static float toFloat(byte bits) {
    return Float16.toFloat((short) (bits << 8));
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
        Double.isInfinite(x) ? MAX_VALUE : Math.min(Rounding.magnitude(x, 2, -14), MAX_VALUE);
    return (byte) ((Double.doubleToRawLongBits(x) >>> 56 & 0x80) | magnitude);
  }

  /** True if the bits are those of a NaN. */
  public static boolean isNaN(byte bits) {
    return (bits & 0x7f) > 0x7c;
  }
}
