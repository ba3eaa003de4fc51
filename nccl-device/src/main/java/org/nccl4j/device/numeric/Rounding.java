package org.nccl4j.device.numeric;

/** Rounding of a double to a format of fewer bits. */
final class Rounding {
  private Rounding() {}

  /**
   * The bits of the nearest magnitude, ties to even, as if the exponent had no upper limit: above
   * the format's greatest finite bits the value has overflowed.
   *
   * @param x neither NaN nor infinite; its sign is ignored
   * @param fraction bits of the stored significand
   * @param minExponent exponent of the least normal number
   */
  static int magnitude(double x, int fraction, int minExponent) {
    double magnitude = Math.abs(x);
    int exponent = Math.max(Math.getExponent(magnitude), minExponent);
    // In units of the last place; the scaling is exact, since it leaves nothing subnormal.
    int units = (int) Math.rint(Math.scalb(magnitude, fraction - exponent));
    // The leading 1 of a normal number adds the 1 that its biased exponent still lacks.
    return ((exponent - minExponent) << fraction) + units;
  }
}
