package org.nccl4j.it.perf.check;

import org.nccl4j.device.DataType;

/**
 * A binary floating-point format of at most 16 bits: its numbers as doubles and back, by arithmetic
 * on doubles.
 *
 * @param mantissaBits stored bits of the significand
 * @param bias of the exponent
 */
record FloatFormat(int mantissaBits, int bias) {
  /** The format of a type of at most 16 bits. */
  static FloatFormat of(DataType type) {
    int exponentBits = 8 * type.bytes() - type.significandBits();
    return new FloatFormat(type.significandBits() - 1, (1 << (exponentBits - 1)) - 1);
  }

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
