package org.nccl4j.device.numeric;

import java.math.BigInteger;
import org.nccl4j.device.DataType;

/**
 * A floating-point format in exact integer arithmetic: slow, and sharing nothing with what it
 * checks.
 */
public final class BinaryFormat {
  /** A number as a fraction; the sign counts for zeros too. */
  public record Exact(boolean negative, BigInteger numerator, BigInteger denominator) {
    /** True if it is a zero. */
    public boolean isZero() {
      return numerator.signum() == 0;
    }

    /** With its sign. */
    public BigInteger signedNumerator() {
      return negative ? numerator.negate() : numerator;
    }
  }

  private final int fraction;
  private final int exponentBits;
  private final int minExponent;
  private final boolean float8;
  private final boolean infinities;

  private BinaryFormat(int fraction, int exponentBits, boolean float8, boolean infinities) {
    this.fraction = fraction;
    this.exponentBits = exponentBits;
    this.minExponent = 2 - (1 << (exponentBits - 1));
    this.float8 = float8;
    this.infinities = infinities;
  }

  /** The format of a floating-point type. */
  public static BinaryFormat of(DataType type) {
    return switch (type) {
      case FLOAT16 -> new BinaryFormat(10, 5, false, true);
      case BFLOAT16 -> new BinaryFormat(7, 8, false, true);
      case FLOAT32 -> new BinaryFormat(23, 8, false, true);
      case FLOAT64 -> new BinaryFormat(52, 11, false, true);
      case FLOAT8_E4M3 -> new BinaryFormat(3, 4, true, false);
      case FLOAT8_E5M2 -> new BinaryFormat(2, 5, true, true);
      default -> throw new IllegalArgumentException(type.label());
    };
  }

  private long magnitude(long bits) {
    return bits & ((1L << (fraction + exponentBits)) - 1);
  }

  /** Bits of infinity; of what would be infinity, where there is none. */
  private long allOnesExponent() {
    return ((1L << exponentBits) - 1) << fraction;
  }

  private long maxFinite() {
    return infinities ? allOnesExponent() - 1 : (1L << (fraction + exponentBits)) - 2;
  }

  public boolean isNaN(long bits) {
    return infinities ? magnitude(bits) > allOnesExponent() : magnitude(bits) > maxFinite();
  }

  public boolean isInfinite(long bits) {
    return infinities && magnitude(bits) == allOnesExponent();
  }

  public boolean isNegative(long bits) {
    return (bits >>> (fraction + exponentBits) & 1) != 0;
  }

  /** Some NaN. */
  public long nan() {
    return (1L << (fraction + exponentBits)) - 1;
  }

  private long signed(boolean negative, long magnitude) {
    return negative ? magnitude | 1L << (fraction + exponentBits) : magnitude;
  }

  /** The bits for a result beyond the largest finite number. */
  public long overflow(boolean negative) {
    return signed(negative, float8 ? maxFinite() : allOnesExponent());
  }

  /** The value of finite bits. */
  public Exact exact(long bits) {
    long magnitude = magnitude(bits);
    long field = magnitude >>> fraction;
    long significand = magnitude & ((1L << fraction) - 1);
    if (field > 0) {
      significand |= 1L << fraction;
    }
    int power = (int) Math.max(field, 1) - 1 + minExponent - fraction;
    return new Exact(
        isNegative(bits),
        BigInteger.valueOf(significand).shiftLeft(Math.max(power, 0)),
        BigInteger.ONE.shiftLeft(Math.max(-power, 0)));
  }

  /** The bits of the nearest number, ties to even; float8 saturates. */
  public long round(Exact x) {
    if (x.isZero()) {
      return signed(x.negative(), 0);
    }
    int exponent = x.numerator().bitLength() - x.denominator().bitLength();
    if (compareToPower(x, exponent) < 0) {
      exponent--;
    }
    exponent = Math.max(exponent, minExponent);
    int unit = exponent - fraction;
    BigInteger divisor = x.denominator().shiftLeft(Math.max(unit, 0));
    BigInteger[] parts = x.numerator().shiftLeft(Math.max(-unit, 0)).divideAndRemainder(divisor);
    int half = parts[1].shiftLeft(1).compareTo(divisor);
    BigInteger units = parts[0];
    if (half > 0 || (half == 0 && units.testBit(0))) {
      units = units.add(BigInteger.ONE);
    }
    if (units.bitLength() > fraction + 1) {
      units = units.shiftRight(1);
      exponent++;
    }
    long field = units.testBit(fraction) ? exponent - minExponent + 1 : 0;
    if (field >= 1L << exponentBits) {
      return overflow(x.negative());
    }
    long magnitude = field << fraction | (units.longValueExact() & ((1L << fraction) - 1));
    return magnitude > maxFinite() ? overflow(x.negative()) : signed(x.negative(), magnitude);
  }

  private static int compareToPower(Exact x, int power) {
    return x.numerator()
        .shiftLeft(Math.max(-power, 0))
        .compareTo(x.denominator().shiftLeft(Math.max(power, 0)));
  }
}
