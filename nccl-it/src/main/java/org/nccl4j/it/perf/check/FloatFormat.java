package org.nccl4j.it.perf.check;

/**
 * A binary floating-point format of at most 16 bits: its numbers as doubles and back, by arithmetic
 * on doubles.
 *
 * @param mantissaBits stored bits of the significand
 * @param bias of the exponent
 */
record FloatFormat(int mantissaBits, int bias) {
  static final FloatFormat BINARY16 = new FloatFormat(10, 15);
  static final FloatFormat BFLOAT16 = new FloatFormat(7, 127);
  static final FloatFormat E4M3 = new FloatFormat(3, 7);
  static final FloatFormat E5M2 = new FloatFormat(2, 15);

  /** The bits, without the sign, of the nearest number; ties to even. */
  int magnitudeBits(double magnitude) {
    int smallest = 1 - bias;
    int exponent = Math.max(Math.getExponent(magnitude), smallest);
    int units = (int) Math.rint(Math.scalb(magnitude, mantissaBits - exponent));
    // A significand that rounded up to the next power of two carries into the exponent by itself.
    int hidden = 1 << mantissaBits;
    return units < hidden ? units : ((exponent - smallest) << mantissaBits) + units;
  }

  /** The number with these bits, none of them the sign. Infinities and NaN come out as numbers. */
  double magnitude(int bits) {
    int exponent = bits >>> mantissaBits;
    int fraction = bits & ((1 << mantissaBits) - 1);
    int units = exponent == 0 ? fraction : fraction | 1 << mantissaBits;
    return Math.scalb((double) units, Math.max(exponent, 1) - bias - mantissaBits);
  }
}
