package org.nccl4j.device.host.reduce;

import java.nio.ByteBuffer;
import java.nio.LongBuffer;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.bind.NativeMemory;

/**
 * int64 and uint64; as {@link Int32Reduction}, for the reason that {@link Float32Reduction} gives.
 */
final class Int64Reduction extends StagedReduction {
  private final long[] left = new long[BLOCK_BYTES >> 3];
  private final long[] right = new long[BLOCK_BYTES >> 3];
  private final Views<LongBuffer> views = new Views<>(ByteBuffer::asLongBuffer, 8);

  /** Bits that, flipped, turn the type's order into the order of signed numbers. */
  private final long flip;

  Int64Reduction(RedOp op, int ranks, boolean signed) {
    super(DataType.INT64, op, ranks);
    this.flip = signed ? 0 : Long.MIN_VALUE;
  }

  @Override
  @HotPath
  void combineFew(
      ByteBuffer a, int aIndex, ByteBuffer b, int bIndex, ByteBuffer to, int toIndex, int count) {
    for (int i = 0; i < count; i++) {
      to.putLong(
          toIndex + (i << 3), one(a.getLong(aIndex + (i << 3)), b.getLong(bIndex + (i << 3))));
    }
  }

  @Override
  @HotPath
  void addFew(long a, long b, long to, int bytes) {
    for (int at = 0; at < bytes; at += 8) {
      NativeMemory.putLong(to + at, NativeMemory.getLong(a + at) + NativeMemory.getLong(b + at));
    }
  }

  @Override
  @HotPath
  void divideFew(ByteBuffer from, int fromIndex, ByteBuffer to, int toIndex, int count) {
    for (int i = 0; i < count; i++) {
      to.putLong(toIndex + (i << 3), quotient(from.getLong(fromIndex + (i << 3))));
    }
  }

  @HotPath
  private long one(long a, long b) {
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
  private long quotient(long a) {
    return flip == 0 ? a / ranks : Long.divideUnsigned(a, ranks);
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
  private void load(ByteBuffer window, int index, long[] to, int count) {
    views.of(window, index).get(index >> 3, to, 0, count);
  }

  @Override
  @HotPath
  void store(ByteBuffer window, int index, int count) {
    views.of(window, index).put(index >> 3, left, 0, count);
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
        left[i] = Long.divideUnsigned(left[i], ranks);
      }
    }
  }

  @HotPath
  private static void sum(long[] a, long[] b, int count) {
    for (int i = 0; i < count; i++) {
      a[i] += b[i];
    }
  }

  @HotPath
  private static void product(long[] a, long[] b, int count) {
    for (int i = 0; i < count; i++) {
      a[i] *= b[i];
    }
  }

  @HotPath
  private static void greatest(long[] a, long[] b, long flip, int count) {
    for (int i = 0; i < count; i++) {
      a[i] = Math.max(a[i] ^ flip, b[i] ^ flip) ^ flip;
    }
  }

  @HotPath
  private static void least(long[] a, long[] b, long flip, int count) {
    for (int i = 0; i < count; i++) {
      a[i] = Math.min(a[i] ^ flip, b[i] ^ flip) ^ flip;
    }
  }
}
