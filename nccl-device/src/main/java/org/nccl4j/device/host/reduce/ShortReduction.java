package org.nccl4j.device.host.reduce;

import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;

/**
 * The 16-bit floating-point types. Blocks are taken as words of two elements, whose halves are
 * widened to floats and narrowed again by loops over ints, and combined by loops over floats: the
 * JIT compiler vectorises these, and not a loop that goes from short to float.
 */
abstract class ShortReduction extends StagedReduction {
  /** The most ranks by which a quotient in float rounds on to the nearest of 11 bits or fewer. */
  private static final int MAX_FLOAT_DIVISOR = 1 << 11;

  /** Half of the others' blocks, since more arrays are to stay in the cache. */
  static final int SHORT_BLOCK_BYTES = 4096;

  /** The passes over a block cost as much as so many elements one by one. */
  static final int FEW_SHORTS = 64;

  private static final int WORDS = SHORT_BLOCK_BYTES >> 2;

  final int[] left = new int[WORDS];
  final int[] right = new int[WORDS];
  private final int[] low = new int[WORDS];
  private final int[] high = new int[WORDS];
  private final float[] leftWide = new float[WORDS];
  private final float[] rightWide = new float[WORDS];
  private final Bits bits = new Bits(WORDS);
  private final Views<IntBuffer> views = new Views<>(ByteBuffer::asIntBuffer, 4);
  private final int infinity;

  ShortReduction(DataType type, RedOp op, int ranks, short infinity) {
    super(type, op, ranks, SHORT_BLOCK_BYTES, FEW_SHORTS);
    this.infinity = infinity;
  }

  /** a + b. */
  abstract short sum(short a, short b);

  /** a * b. */
  abstract short product(short a, short b);

  /** a / ranks, for any number of ranks. */
  abstract short quotient(short a);

  /** left = left * right. */
  abstract void multiply(int words);

  /** The lower halves of words as bits of floats that are proportional to them. */
  abstract void widenLow(int[] from, int[] to, int words);

  /** The upper halves of words as bits of floats that are proportional to them. */
  abstract void widenHigh(int[] from, int[] to, int words);

  /** The reverse of both, rounding to nearest even; any NaN becomes the canonical one. */
  abstract void narrow(int[] low, int[] high, int[] to, int words);

  @Override
  @HotPath
  final void combineFew(
      ByteBuffer a, int aIndex, ByteBuffer b, int bIndex, ByteBuffer to, int toIndex, int count) {
    for (int i = 0; i < 2 * count; i += 2) {
      to.putShort(toIndex + i, one(a.getShort(aIndex + i), b.getShort(bIndex + i)));
    }
  }

  @Override
  @HotPath
  final void divideFew(ByteBuffer from, int fromIndex, ByteBuffer to, int toIndex, int count) {
    for (int i = 0; i < 2 * count; i += 2) {
      to.putShort(toIndex + i, quotient(from.getShort(fromIndex + i)));
    }
  }

  @HotPath
  private short one(short a, short b) {
    if (adds) {
      return sum(a, b);
    }
    return switch (op) {
      case SUM, AVG -> sum(a, b);
      case PROD -> product(a, b);
      case MAX -> (short) ShortOrder.greater(a, b, infinity);
      case MIN -> (short) ShortOrder.lesser(a, b, infinity);
    };
  }

  @Override
  @HotPath
  final void loadLeft(ByteBuffer window, int index, int count) {
    load(window, index, left, count);
  }

  @Override
  @HotPath
  final void loadRight(ByteBuffer window, int index, int count) {
    load(window, index, right, count);
  }

  @HotPath
  private void load(ByteBuffer window, int index, int[] words, int count) {
    views.of(window, index).get(index >> 2, words, 0, count >> 1);
    if ((count & 1) != 0) {
      words[count >> 1] = window.getShort(index + (count << 1) - 2);
    }
  }

  @Override
  @HotPath
  final void store(ByteBuffer window, int index, int count) {
    views.of(window, index).put(index >> 2, left, 0, count >> 1);
    if ((count & 1) != 0) {
      window.putShort(index + (count << 1) - 2, (short) left[count >> 1]);
    }
  }

  @Override
  @HotPath
  final void combine(int count) {
    int words = (count + 1) >> 1;
    switch (op) {
      case SUM, AVG -> {
        widenLow(words);
        Float32Reduction.sum(leftWide, rightWide, leftWide, words);
        bits.toInts(leftWide, low, words);
        widenHigh(words);
        Float32Reduction.sum(leftWide, rightWide, leftWide, words);
        bits.toInts(leftWide, high, words);
        narrow(low, high, left, words);
      }
      case PROD -> multiply(words);
      case MAX -> ShortOrder.greatest(left, right, infinity, words);
      case MIN -> ShortOrder.least(left, right, infinity, words);
    }
  }

  @Override
  @HotPath
  final void divide(int count) {
    int words = (count + 1) >> 1;
    if (ranks <= MAX_FLOAT_DIVISOR) {
      widenLow(left, leftWide, words);
      Float32Reduction.quotient(leftWide, ranks, leftWide, words);
      bits.toInts(leftWide, low, words);
      widenHigh(left, leftWide, words);
      Float32Reduction.quotient(leftWide, ranks, leftWide, words);
      bits.toInts(leftWide, high, words);
      narrow(low, high, left, words);
      return;
    }
    for (int i = 0; i < words; i++) {
      left[i] = (quotient((short) left[i]) & 0xffff) | quotient((short) (left[i] >> 16)) << 16;
    }
  }

  /**
   * Multiplies a type through floats that are proportional to its values. The products are
   * proportional too.
   */
  @HotPath
  final void multiplyWide(int words) {
    widenLow(words);
    Float32Reduction.product(leftWide, rightWide, leftWide, words);
    bits.toInts(leftWide, low, words);
    widenHigh(words);
    Float32Reduction.product(leftWide, rightWide, leftWide, words);
    bits.toInts(leftWide, high, words);
    narrow(low, high, left, words);
  }

  @HotPath
  private void widenLow(int words) {
    widenLow(left, leftWide, words);
    widenLow(right, rightWide, words);
  }

  @HotPath
  private void widenHigh(int words) {
    widenHigh(left, leftWide, words);
    widenHigh(right, rightWide, words);
  }

  @HotPath
  private void widenLow(int[] from, float[] to, int words) {
    widenLow(from, high, words);
    bits.toFloats(high, to, words);
  }

  @HotPath
  private void widenHigh(int[] from, float[] to, int words) {
    widenHigh(from, high, words);
    bits.toFloats(high, to, words);
  }
}
