package org.nccl4j.device.host.reduce;

import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.bind.NativeMemory;

/**
 * int32 and uint32; as {@link Int64Reduction}, for the reason that {@link Float32Reduction} gives.
 */
final class Int32Reduction extends StagedReduction {
  private final int[] left = new int[BLOCK_BYTES >> 2];
  private final int[] right = new int[BLOCK_BYTES >> 2];
  private final Views<IntBuffer> views = new Views<>(ByteBuffer::asIntBuffer, 4);

  /** Bits that, flipped, turn the type's order into the order of signed numbers. */
  private final int flip;

  Int32Reduction(RedOp op, int ranks, boolean signed) {
    super(DataType.INT32, op, ranks);
    this.flip = signed ? 0 : Integer.MIN_VALUE;
  }

  @Override
  @HotPath
  void combineFew(
      ByteBuffer a, int aIndex, ByteBuffer b, int bIndex, ByteBuffer to, int toIndex, int count) {
    for (int i = 0; i < count; i++) {
      to.putInt(toIndex + (i << 2), one(a.getInt(aIndex + (i << 2)), b.getInt(bIndex + (i << 2))));
    }
  }

  @Override
  @HotPath
  void addFew(long a, long b, long to, int bytes) {
    for (int at = 0; at < bytes; at += 4) {
      NativeMemory.putInt(to + at, NativeMemory.getInt(a + at) + NativeMemory.getInt(b + at));
    }
  }

  @Override
  @HotPath
  void divideFew(ByteBuffer from, int fromIndex, ByteBuffer to, int toIndex, int count) {
    for (int i = 0; i < count; i++) {
      to.putInt(toIndex + (i << 2), quotient(from.getInt(fromIndex + (i << 2))));
    }
  }

  @HotPath
  private int one(int a, int b) {
    if (adds) {
      return a + b;
    }
    return switch (op) {
      case SUM, AVG -> a + b;
      case PROD -> a * b;
      case MAX -> Math.max(a ^ flip, b ^ flip) ^ flip;
      case MIN -> Math.min(a ^ flip, b ^ flip) ^ flip;
    };
  }

  @HotPath
  private int quotient(int a) {
    return flip == 0 ? a / ranks : Integer.divideUnsigned(a, ranks);
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
  private void load(ByteBuffer window, int index, int[] to, int count) {
    views.of(window, index).get(index >> 2, to, 0, count);
  }

  @Override
  @HotPath
  void store(ByteBuffer window, int index, int count) {
    views.of(window, index).put(index >> 2, left, 0, count);
  }

  @Override
  @HotPath
  void combine(int count) {
    switch (op) {
      case SUM, AVG -> sum(left, right, count);
      case PROD -> product(left, right, count);
      case MAX -> greatest(left, right, flip, count);
      case MIN -> least(left, right, flip, count);
    }
  }

  @Override
  @HotPath
  void divide(int count) {
    if (flip == 0) {
      for (int i = 0; i < count; i++) {
        left[i] /= ranks;
      }
    } else {
      for (int i = 0; i < count; i++) {
        left[i] = Integer.divideUnsigned(left[i], ranks);
      }
    }
  }

  @HotPath
  private static void sum(int[] a, int[] b, int count) {
    for (int i = 0; i < count; i++) {
      a[i] += b[i];
    }
  }

  @HotPath
  private static void product(int[] a, int[] b, int count) {
    for (int i = 0; i < count; i++) {
      a[i] *= b[i];
    }
  }

  @HotPath
  private static void greatest(int[] a, int[] b, int flip, int count) {
    for (int i = 0; i < count; i++) {
      int x = a[i] ^ flip;
      int y = b[i] ^ flip;
      int difference = x - y;
      a[i] = (x - (difference & less(x, y, difference))) ^ flip;
    }
  }

  @HotPath
  private static void least(int[] a, int[] b, int flip, int count) {
    for (int i = 0; i < count; i++) {
      int x = a[i] ^ flip;
      int y = b[i] ^ flip;
      int difference = y - x;
      a[i] = (x + (difference & less(y, x, difference))) ^ flip;
    }
  }

  /**
   * All ones if a &lt; b, given a - b, which may have overflowed. Without a branch, a select by
   * masks or {@code Math.max}, none of which C2 of JDK 17 vectorises reliably.
   */
  @HotPath
  private static int less(int a, int b, int difference) {
    return (difference ^ ((a ^ b) & (difference ^ a))) >> 31;
  }
}
