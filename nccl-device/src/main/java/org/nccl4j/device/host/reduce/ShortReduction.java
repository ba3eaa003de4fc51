package org.nccl4j.device.host.reduce;

import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.numeric.FloatFormat;
import org.nccl4j.device.numeric.ShortFormat;

/**
 * The 16-bit floating-point types. Blocks are taken as words of two elements, whose halves are
 * widened to floats and narrowed again by loops over ints, and combined by loops over floats: the
 * JIT compiler vectorises these, and not a loop that goes from short to float.
 */
final class ShortReduction extends StagedReduction {
  /** The most ranks by which a quotient in float rounds on to the nearest of 11 bits or fewer. */
  private static final int MAX_FLOAT_DIVISOR = 1 << 11;

  /** Half of the others' blocks, since more arrays are to stay in the cache. */
  static final int SHORT_BLOCK_BYTES = 4096;

  /** The passes over a block cost as much as so many elements one by one. */
  static final int FEW_SHORTS = 64;

  private static final int WORDS = SHORT_BLOCK_BYTES >> 2;

  private final int[] left = new int[WORDS];
  private final int[] right = new int[WORDS];
  private final int[] low = new int[WORDS];
  private final int[] high = new int[WORDS];
  private final float[] leftWide = new float[WORDS];
  private final float[] rightWide = new float[WORDS];

  /** The sums of the upper halves of words. Those of the lower halves are in leftWide. */
  private final float[] upperWide = new float[WORDS];

  private final Bits bits = new Bits(WORDS);
  private final Views<IntBuffer> views = new Views<>(ByteBuffer::asIntBuffer, 4);
  private final ShortFormat format;
  private final int infinity;

  ShortReduction(DataType type, RedOp op, int ranks) {
    super(type, op, ranks, SHORT_BLOCK_BYTES, FEW_SHORTS);
    this.format = (ShortFormat) FloatFormat.of(type);
    this.infinity = format.infinity();
  }

  @HotPath
  private short sum(short a, short b) {
    return format.nearest(format.value(a) + format.value(b));
  }

  @HotPath
  private short product(short a, short b) {
    return format.nearest(format.value(a) * format.value(b));
  }

  /** a / ranks, for any number of ranks. */
  @HotPath
  private short quotient(short a) {
    return (short) format.fromDouble(format.toDouble(a) / ranks);
  }

  @Override
  @HotPath
  void combineFew(
      ByteBuffer a, int aIndex, ByteBuffer b, int bIndex, ByteBuffer to, int toIndex, int count) {
    for (int i = 0; i < 2 * count; i += 2) {
      to.putShort(toIndex + i, one(a.getShort(aIndex + i), b.getShort(bIndex + i)));
    }
  }

  @Override
  @HotPath
  void divideFew(ByteBuffer from, int fromIndex, ByteBuffer to, int toIndex, int count) {
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
  void loadLeft(ByteBuffer window, int index, int count) {
    load(window, index, left, count);
  }

  @Override
  @HotPath
  void loadRight(ByteBuffer window, int index, int count) {
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
  void store(ByteBuffer window, int index, int count) {
    views.of(window, index).put(index >> 2, left, 0, count >> 1);
    if ((count & 1) != 0) {
      window.putShort(index + (count << 1) - 2, (short) left[count >> 1]);
    }
  }

  @Override
  public boolean widens() {
    return adds || op == RedOp.PROD;
  }

  @Override
  @HotPath
  public void reduceAll(Operands operands, HostMemory target, long targetOffset, int count) {
    if (operands.isPair()) {
      reduce(
          operands.memory(0),
          operands.offset(0),
          operands.memory(1),
          operands.offset(1),
          target,
          targetOffset,
          count);
      return;
    }
    // Products are not proportional to those of the wide numbers that a block has.
    boolean singly = count <= FEW_SHORTS || !adds;
    int most = singly ? WORDS : 2 * WORDS;
    for (int done = 0; done < count; done += most) {
      int some = Math.min(most, count - done);
      long at = 2L * done;
      for (int i = 0; i < operands.size(); i++) {
        ByteBuffer window = operands.window(i, at);
        boolean divides = prepares && operands.isUnprepared(i);
        if (singly) {
          takeSingly(window, operands.index(i, at), some, i == 0, divides);
        } else {
          take(window, operands.index(i, at), some, i == 0, divides);
        }
      }
      ByteBuffer window = target.window(targetOffset + at);
      if (singly) {
        giveSingly(window, target.index(targetOffset + at), some);
      } else {
        give(window, target.index(targetOffset + at), some);
      }
    }
  }

  /** Combines elements with leftWide, one by one. */
  @HotPath
  private void takeSingly(
      ByteBuffer window, int index, int count, boolean isFirst, boolean divides) {
    for (int i = 0; i < count; i++) {
      short element = window.getShort(index + (i << 1));
      float a = adds ? format.widen(element) : format.value(element);
      float b = divides ? a / ranks : a;
      leftWide[i] = isFirst ? b : adds ? leftWide[i] + b : leftWide[i] * b;
    }
  }

  @HotPath
  private void giveSingly(ByteBuffer window, int index, int count) {
    for (int i = 0; i < count; i++) {
      float a = leftWide[i];
      window.putShort(index + (i << 1), adds ? format.narrow(a) : format.nearest(a));
    }
  }

  /** Adds a block to leftWide and upperWide. */
  @HotPath
  private void take(ByteBuffer window, int index, int count, boolean isFirst, boolean divides) {
    int words = blockWords(count);
    load(window, index, right, count);
    float[] wide = isFirst ? leftWide : rightWide;
    widenLow(right, wide, words);
    if (divides) {
      Float32Reduction.quotient(wide, ranks, wide, words);
    }
    if (!isFirst) {
      Float32Reduction.sum(leftWide, wide, leftWide, words);
    }
    wide = isFirst ? upperWide : rightWide;
    widenHigh(right, wide, words);
    if (divides) {
      Float32Reduction.quotient(wide, ranks, wide, words);
    }
    if (!isFirst) {
      Float32Reduction.sum(upperWide, wide, upperWide, words);
    }
  }

  @HotPath
  private void give(ByteBuffer window, int index, int count) {
    int words = blockWords(count);
    bits.toInts(leftWide, low, words);
    bits.toInts(upperWide, high, words);
    format.narrow(low, high, left, words);
    store(window, index, count);
  }

  @HotPath
  private int blockWords(int count) {
    return (Math.max(count, least) + 1) >> 1;
  }

  @Override
  @HotPath
  void combine(int count) {
    int words = (count + 1) >> 1;
    switch (op) {
      case SUM, AVG -> {
        widenLow(words);
        Float32Reduction.sum(leftWide, rightWide, leftWide, words);
        bits.toInts(leftWide, low, words);
        widenHigh(words);
        Float32Reduction.sum(leftWide, rightWide, leftWide, words);
        bits.toInts(leftWide, high, words);
        format.narrow(low, high, left, words);
      }
      case PROD -> multiply(words);
      case MAX -> ShortOrder.greatest(left, right, infinity, words);
      case MIN -> ShortOrder.least(left, right, infinity, words);
    }
  }

  @Override
  @HotPath
  void divide(int count) {
    int words = (count + 1) >> 1;
    if (ranks <= MAX_FLOAT_DIVISOR) {
      widenLow(left, leftWide, words);
      Float32Reduction.quotient(leftWide, ranks, leftWide, words);
      bits.toInts(leftWide, low, words);
      widenHigh(left, leftWide, words);
      Float32Reduction.quotient(leftWide, ranks, leftWide, words);
      bits.toInts(leftWide, high, words);
      format.narrow(low, high, left, words);
      return;
    }
    for (int i = 0; i < words; i++) {
      left[i] = (quotient((short) left[i]) & 0xffff) | quotient((short) (left[i] >> 16)) << 16;
    }
  }

  @HotPath
  private void multiply(int words) {
    if (!format.multipliesWide()) {
      for (int i = 0; i < words; i++) {
        int lower = product((short) left[i], (short) right[i]);
        int upper = product((short) (left[i] >> 16), (short) (right[i] >> 16));
        left[i] = (lower & 0xffff) | upper << 16;
      }
      return;
    }
    widenLow(words);
    Float32Reduction.product(leftWide, rightWide, leftWide, words);
    bits.toInts(leftWide, low, words);
    widenHigh(words);
    Float32Reduction.product(leftWide, rightWide, leftWide, words);
    bits.toInts(leftWide, high, words);
    format.narrow(low, high, left, words);
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
    format.widenLow(from, high, words);
    bits.toFloats(high, to, words);
  }

  @HotPath
  private void widenHigh(int[] from, float[] to, int words) {
    format.widenHigh(from, high, words);
    bits.toFloats(high, to, words);
  }
}
