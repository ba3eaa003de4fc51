package org.nccl4j.device.numeric;

import org.nccl4j.device.HotPath;

/**
 * A floating-point type of 16 bits. A float has to hold twice its bits and two more, so that
 * rounding a result to float first does not change what it rounds to.
 *
 * <p>Words have two elements. They are widened to floats that are proportional to the elements, so
 * that sums and quotients of such floats are proportional too. The loops have no branches, so that
 * the compiler vectorises them.
 */
public abstract class ShortFormat implements FloatFormat {
  /** Bits of positive infinity. */
  public abstract short infinity();

  /** The number, exactly. */
  public abstract float value(short bits);

  /** The nearest number, ties to even; any NaN becomes the canonical one. */
  public abstract short nearest(float x);

  /** A float that is proportional to the number. */
  public abstract float widen(short bits);

  /** The reverse, rounding to nearest even. */
  public abstract short narrow(float x);

  /** True if products of widened numbers are proportional to the numbers' products. */
  public abstract boolean multipliesWide();

  /** Widens the lower halves of words to bits of floats. */
  public abstract void widenLow(int[] from, int[] to, int words);

  /** Widens the upper halves of words to bits of floats. */
  public abstract void widenHigh(int[] from, int[] to, int words);

  /** The reverse of both, rounding to nearest even; any NaN becomes the canonical one. */
  public abstract void narrow(int[] low, int[] high, int[] to, int words);

  @Override
  @HotPath
  public final double toDouble(long bits) {
    return value((short) bits);
  }
}
