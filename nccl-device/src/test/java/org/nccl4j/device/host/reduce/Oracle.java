package org.nccl4j.device.host.reduce;

import java.math.BigInteger;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.numeric.BinaryFormat;
import org.nccl4j.device.numeric.BinaryFormat.Exact;

/** The expected result of each operator and type, computed from definitions on elements' bits. */
final class Oracle {
  private final DataType type;
  private final BinaryFormat format;

  Oracle(DataType type) {
    this.type = type;
    this.format = type.isFloatingPoint() ? BinaryFormat.of(type) : null;
  }

  /** True if an element is right: equal to the expected one, or both NaN. */
  boolean accepts(long expected, long actual) {
    return expected == actual || (format != null && format.isNaN(expected) && format.isNaN(actual));
  }

  /** a op b. */
  long combine(RedOp op, long a, long b) {
    if (format == null) {
      BigInteger x = integer(a);
      BigInteger y = integer(b);
      return switch (op) {
        case SUM, AVG -> wrap(x.add(y));
        case PROD -> wrap(x.multiply(y));
        case MAX -> wrap(x.max(y));
        case MIN -> wrap(x.min(y));
      };
    }
    return switch (op) {
      case SUM, AVG -> sum(a, b);
      case PROD -> product(a, b);
      case MAX -> select(a, b, 1);
      case MIN -> select(a, b, -1);
    };
  }

  /** a divided by the ranks. */
  long divide(long a, int ranks) {
    BigInteger divisor = BigInteger.valueOf(ranks);
    if (format == null) {
      return wrap(integer(a).divide(divisor));
    }
    if (format.isNaN(a)) {
      return a;
    }
    if (format.isInfinite(a)) {
      return format.overflow(format.isNegative(a));
    }
    Exact x = format.exact(a);
    return format.round(new Exact(x.negative(), x.numerator(), x.denominator().multiply(divisor)));
  }

  private long sum(long a, long b) {
    if (format.isNaN(a) || format.isNaN(b)) {
      return format.nan();
    }
    if (format.isInfinite(a) || format.isInfinite(b)) {
      if (format.isInfinite(a) && format.isInfinite(b) && isOpposite(a, b)) {
        return format.nan();
      }
      return format.overflow(format.isNegative(format.isInfinite(a) ? a : b));
    }
    Exact x = format.exact(a);
    Exact y = format.exact(b);
    BigInteger sum =
        x.signedNumerator()
            .multiply(y.denominator())
            .add(y.signedNumerator().multiply(x.denominator()));
    boolean negative = sum.signum() < 0 || (sum.signum() == 0 && x.negative() && y.negative());
    return format.round(new Exact(negative, sum.abs(), x.denominator().multiply(y.denominator())));
  }

  private long product(long a, long b) {
    if (format.isNaN(a) || format.isNaN(b)) {
      return format.nan();
    }
    boolean negative = isOpposite(a, b);
    if (format.isInfinite(a) || format.isInfinite(b)) {
      boolean zero = !format.isInfinite(a) ? isZero(a) : !format.isInfinite(b) && isZero(b);
      return zero ? format.nan() : format.overflow(negative);
    }
    Exact x = format.exact(a);
    Exact y = format.exact(b);
    return format.round(
        new Exact(
            negative,
            x.numerator().multiply(y.numerator()),
            x.denominator().multiply(y.denominator())));
  }

  private long select(long a, long b, int sign) {
    if (format.isNaN(a)) {
      return finite(b);
    }
    if (format.isNaN(b)) {
      return finite(a);
    }
    return finite(compare(a, b) * sign >= 0 ? a : b);
  }

  /** As the type's results are: float8 knows no infinite ones. */
  private long finite(long bits) {
    return format.isInfinite(bits) ? format.overflow(format.isNegative(bits)) : bits;
  }

  private int compare(long a, long b) {
    if (format.isNegative(a) != format.isNegative(b)) {
      return format.isNegative(a) ? -1 : 1;
    }
    if (format.isInfinite(a) || format.isInfinite(b)) {
      int magnitudes = Boolean.compare(format.isInfinite(a), format.isInfinite(b));
      return format.isNegative(a) ? -magnitudes : magnitudes;
    }
    Exact x = format.exact(a);
    Exact y = format.exact(b);
    return x.signedNumerator()
        .multiply(y.denominator())
        .compareTo(y.signedNumerator().multiply(x.denominator()));
  }

  private boolean isZero(long bits) {
    return format.exact(bits).isZero();
  }

  private boolean isOpposite(long a, long b) {
    return format.isNegative(a) != format.isNegative(b);
  }

  private boolean isUnsigned() {
    return type == DataType.UINT8 || type == DataType.UINT32 || type == DataType.UINT64;
  }

  private BigInteger integer(long bits) {
    int size = 8 * type.bytes();
    BigInteger unsigned = BigInteger.valueOf(bits).mod(BigInteger.ONE.shiftLeft(size));
    return isUnsigned() || !unsigned.testBit(size - 1)
        ? unsigned
        : unsigned.subtract(BigInteger.ONE.shiftLeft(size));
  }

  private long wrap(BigInteger x) {
    return x.mod(BigInteger.ONE.shiftLeft(8 * type.bytes())).longValue();
  }
}
