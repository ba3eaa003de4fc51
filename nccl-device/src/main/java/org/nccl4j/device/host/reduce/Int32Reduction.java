package org.nccl4j.device.host.reduce;

import java.nio.ByteBuffer;
import java.nio.IntBuffer;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;

/** int32 and uint32. */
final class Int32Reduction extends StagedReduction {
  private final int[] left = new int[BLOCK_BYTES >> 2];
  private final int[] right = new int[BLOCK_BYTES >> 2];
  private final Views<IntBuffer> views = new Views<>(ByteBuffer::asIntBuffer, 4);

  /** What makes the order of signed numbers that of the type. */
  private final int flip;

  Int32Reduction(RedOp op, int ranks, boolean signed) {
    super(DataType.INT32, op, ranks);
    this.flip = signed ? 0 : Integer.MIN_VALUE;
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
    if (count > FEW) {
      views.of(window, index).get(index >> 2, to, 0, count);
      return;
    }
    for (int i = 0; i < count; i++) {
      to[i] = window.getInt(index + (i << 2));
    }
  }

  @Override
  @HotPath
  void store(ByteBuffer window, int index, int count) {
    if (count > FEW) {
      views.of(window, index).put(index >> 2, left, 0, count);
      return;
    }
    for (int i = 0; i < count; i++) {
      window.putInt(index + (i << 2), left[i]);
    }
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
      a[i] = Math.max(a[i] ^ flip, b[i] ^ flip) ^ flip;
    }
  }

  @HotPath
  private static void least(int[] a, int[] b, int flip, int count) {
    for (int i = 0; i < count; i++) {
      a[i] = Math.min(a[i] ^ flip, b[i] ^ flip) ^ flip;
    }
  }
}
