package org.nccl4j.device.host.reduce;

import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;

/**
 * The 16-bit floating-point types. Few elements are combined one by one. Many are taken as words of
 * two, whose halves are widened to floats and narrowed again by loops over ints, and combined by
 * loops over floats: the JIT compiler vectorises these, and not a loop that goes from short to
 * float.
 */
abstract class ShortReduction extends StagedReduction {
  /** Up to so many elements one by one is faster. */
  static final int FEW_SHORTS = 48;

  /** The most ranks by which a quotient in float rounds on to the nearest of 11 bits or fewer. */
  private static final int MAX_FLOAT_DIVISOR = 1 << 11;

  private static final int WORDS = BLOCK_BYTES >> 2;

  final short[] leftFew = new short[FEW_SHORTS];
  final short[] rightFew = new short[FEW_SHORTS];
  final int[] left = new int[WORDS];
  final int[] right = new int[WORDS];
  private final float[] leftWide = new float[2 * WORDS];
  private final float[] rightWide = new float[2 * WORDS];
  private final int[] wide = new int[2 * WORDS];
  private final Bits bits = new Bits(2 * WORDS);
  private final Views<IntBuffer> views = new Views<>(ByteBuffer::asIntBuffer, 4);
  private final int infinity;

  ShortReduction(DataType type, RedOp op, int ranks, short infinity) {
    super(type, op, ranks);
    this.infinity = infinity;
  }

  /** leftFew = leftFew op rightFew. */
  abstract void combineFew(int count);

  /** leftFew = leftFew / ranks. */
  abstract void divideFew(int count);

  /** One quotient of any divisor, rounded once. */
  abstract short quotient(short bits);

  /** left = left times right, words of two. */
  abstract void multiply(int words);

  /**
   * The lower halves of words, then the upper ones, as bits of floats that are proportional to
   * them.
   */
  abstract void widen(int[] from, int[] to, int words);

  /** The reverse, rounding to nearest even; any NaN becomes the canonical one. */
  abstract void narrow(int[] from, int[] to, int words);

  @Override
  @HotPath
  final void loadLeft(ByteBuffer window, int index, int count) {
    load(window, index, leftFew, left, count);
  }

  @Override
  @HotPath
  final void loadRight(ByteBuffer window, int index, int count) {
    load(window, index, rightFew, right, count);
  }

  @HotPath
  private void load(ByteBuffer window, int index, short[] few, int[] words, int count) {
    if (count <= FEW_SHORTS) {
      for (int i = 0; i < count; i++) {
        few[i] = window.getShort(index + (i << 1));
      }
      return;
    }
    views.of(window, index).get(index >> 2, words, 0, count >> 1);
    if ((count & 1) != 0) {
      words[count >> 1] = window.getShort(index + (count << 1) - 2) & 0xffff;
    }
  }

  @Override
  @HotPath
  final void store(ByteBuffer window, int index, int count) {
    if (count <= FEW_SHORTS) {
      for (int i = 0; i < count; i++) {
        window.putShort(index + (i << 1), leftFew[i]);
      }
      return;
    }
    views.of(window, index).put(index >> 2, left, 0, count >> 1);
    if ((count & 1) != 0) {
      window.putShort(index + (count << 1) - 2, (short) left[count >> 1]);
    }
  }

  @Override
  @HotPath
  final void combine(int count) {
    if (count <= FEW_SHORTS) {
      combineFew(count);
      return;
    }
    int words = (count + 1) >> 1;
    switch (op) {
      case SUM, AVG -> {
        widen(left, leftWide, words);
        widen(right, rightWide, words);
        Float32Reduction.sum(leftWide, rightWide, leftWide, 2 * words);
        narrow(leftWide, left, words);
      }
      case PROD -> multiply(words);
      case MAX -> ShortOrder.greatest(left, right, infinity, words);
      case MIN -> ShortOrder.least(left, right, infinity, words);
    }
  }

  @Override
  @HotPath
  final void divide(int count) {
    if (count <= FEW_SHORTS) {
      divideFew(count);
      return;
    }
    int words = (count + 1) >> 1;
    if (ranks <= MAX_FLOAT_DIVISOR) {
      widen(left, leftWide, words);
      Float32Reduction.quotient(leftWide, ranks, leftWide, 2 * words);
      narrow(leftWide, left, words);
      return;
    }
    for (int i = 0; i < words; i++) {
      left[i] = (quotient((short) left[i]) & 0xffff) | quotient((short) (left[i] >> 16)) << 16;
    }
  }

  /** left = left times right, where the product of the widened is what widening the product is. */
  @HotPath
  final void multiplyWide(int words) {
    widen(left, leftWide, words);
    widen(right, rightWide, words);
    Float32Reduction.product(leftWide, rightWide, leftWide, 2 * words);
    narrow(leftWide, left, words);
  }

  @HotPath
  private void widen(int[] from, float[] to, int words) {
    widen(from, wide, words);
    bits.toFloats(wide, to, 2 * words);
  }

  @HotPath
  private void narrow(float[] from, int[] to, int words) {
    bits.toInts(from, wide, 2 * words);
    narrow(wide, to, words);
  }
}
