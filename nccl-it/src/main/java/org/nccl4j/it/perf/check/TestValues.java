package org.nccl4j.it.perf.check;

import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;

/**
 * The elements that ranks contribute, made so that combining them in any order and grouping is
 * exact in the type: sums are of parts of a small whole with one sign, products of powers of two
 * within the exponent range, and so on. Integer sums and products wrap, which is exact anyway.
 *
 * <p>An average over a number of ranks that is no power of two cannot be exact; two ranks alone
 * then contribute to each element, so that no order of rounding is more than two steps off.
 *
 * <p>Immutable; pure functions of rank and index.
 */
final class TestValues {
  /** Bits of the largest sums, in types that have more. */
  private static final int MOST_BITS = 40;

  private final DataType type;
  private final RedOp op;
  private final int nRanks;
  private final long seed;

  /**
   * Values for one run.
   *
   * @param seed another one gives other values
   */
  TestValues(DataType type, RedOp op, int nRanks, long seed) {
    this.type = type;
    this.op = op;
    this.nRanks = nRanks;
    this.seed = seed;
  }

  /** A rank's element of a floating-point type. */
  double floating(int rank, long index) {
    long element = mix(seed ^ index * 0x9e3779b97f4a7c15L);
    return switch (op) {
      case SUM -> signOf(element) * part(element, 1L << significantBits(), rank);
      case AVG -> signOf(element) * averaged(element, rank);
      case PROD -> factor(element, rank);
      case MIN, MAX -> {
        long range = 1L << significantBits();
        yield Math.floorMod(mix(element + rank), 2 * range + 1) - range;
      }
    };
  }

  /** A rank's element of an integer type, in its low bits. */
  long integer(int rank, long index) {
    long element = mix(seed ^ index * 0x9e3779b97f4a7c15L);
    return op == RedOp.AVG ? part(element, 127, rank) : mix(element + rank);
  }

  private long averaged(long element, int rank) {
    if (Integer.bitCount(nRanks) == 1) {
      return part(element, 1L << significantBits(), rank);
    }
    int turned = turn(element, rank);
    return turned > 1 ? 0 : 1 + Long.remainderUnsigned(mix(element + turned), significantBits());
  }

  /** This rank's part of a whole of at most the limit, which the element decides. */
  private long part(long element, long limit, int rank) {
    long whole = Long.remainderUnsigned(element >>> 8, limit + 1);
    int turned = turn(element, rank);
    return whole * (turned + 1) / nRanks - whole * turned / nRanks;
  }

  private double factor(long element, int rank) {
    int exponent = (int) part(element, productExponent(), rank);
    double significand = turn(element, rank) == 0 && (element & 2) != 0 ? 1.5 : 1;
    return signOf(mix(element + rank)) * Math.scalb(significand, exponent);
  }

  private int turn(long element, int rank) {
    return (int) ((rank + (element >>> 40)) % nRanks);
  }

  private static int signOf(long bits) {
    return (bits & 1) == 0 ? 1 : -1;
  }

  /** Integers up to two to this power are exact. */
  private int significantBits() {
    return type.isFloatingPoint() ? Math.min(MOST_BITS, type.significandBits()) : MOST_BITS;
  }

  /** Two to this power, times one and a half, is finite. */
  private int productExponent() {
    return switch (type) {
      case FLOAT8_E4M3 -> 7;
      case FLOAT8_E5M2 -> 13;
      case FLOAT16 -> 14;
      default -> 60;
    };
  }

  /** The finalizer of SplitMix64. */
  private static long mix(long z) {
    long a = (z ^ z >>> 30) * 0xbf58476d1ce4e5b9L;
    long b = (a ^ a >>> 27) * 0x94d049bb133111ebL;
    return b ^ b >>> 31;
  }
}
