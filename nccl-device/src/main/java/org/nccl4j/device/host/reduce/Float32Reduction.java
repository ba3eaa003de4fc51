package org.nccl4j.device.host.reduce;

import java.nio.ByteBuffer;
import java.nio.FloatBuffer;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.bind.NativeMemory;

/**
 * float32. {@link Float64Reduction} reads alike, as {@link Int32Reduction} and {@link
 * Int64Reduction} do: code that names no primitive type is shared in {@link StagedReduction}; the
 * rest is loops over arrays, which C2 vectorises only where the array's type is written in them.
 */
final class Float32Reduction extends StagedReduction {
  private final float[] left = new float[BLOCK_BYTES >> 2];
  private final float[] right = new float[BLOCK_BYTES >> 2];
  private final float[] result = new float[BLOCK_BYTES >> 2];
  private final Views<FloatBuffer> views = new Views<>(ByteBuffer::asFloatBuffer, 4);

  Float32Reduction(RedOp op, int ranks) {
    super(DataType.FLOAT32, op, ranks);
  }

  @Override
  @HotPath
  void combineFew(
      ByteBuffer a, int aIndex, ByteBuffer b, int bIndex, ByteBuffer to, int toIndex, int count) {
    for (int i = 0; i < count; i++) {
      to.putFloat(
          toIndex + (i << 2), one(a.getFloat(aIndex + (i << 2)), b.getFloat(bIndex + (i << 2))));
    }
  }

  @Override
  @HotPath
  void addFew(long a, long b, long to, int bytes) {
    for (int at = 0; at < bytes; at += 4) {
      float x = Float.intBitsToFloat(NativeMemory.getInt(a + at));
      float y = Float.intBitsToFloat(NativeMemory.getInt(b + at));
      NativeMemory.putInt(to + at, Float.floatToRawIntBits(x + y));
    }
  }

  @Override
  @HotPath
  void divideFew(ByteBuffer from, int fromIndex, ByteBuffer to, int toIndex, int count) {
    for (int i = 0; i < count; i++) {
      to.putFloat(toIndex + (i << 2), from.getFloat(fromIndex + (i << 2)) / ranks);
    }
  }

  @HotPath
  private float one(float a, float b) {
    if (adds) {
      return a + b;
    }
    return switch (op) {
      case SUM, AVG -> a + b;
      case PROD -> a * b;
      case MAX -> Float.isNaN(a) ? b : Float.isNaN(b) ? a : Math.max(a, b);
      case MIN -> Float.isNaN(a) ? b : Float.isNaN(b) ? a : Math.min(a, b);
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
  private void load(ByteBuffer window, int index, float[] to, int count) {
    views.of(window, index).get(index >> 2, to, 0, count);
  }

  @Override
  @HotPath
  void store(ByteBuffer window, int index, int count) {
    views.of(window, index).put(index >> 2, result, 0, count);
  }

  @Override
  @HotPath
  void combine(int count) {
    switch (op) {
      case SUM, AVG -> sum(left, right, result, count);
      case PROD -> product(left, right, result, count);
      case MAX -> {
        greatest(left, right, result, count);
        preferNumbers(left, right, result, count);
      }
      case MIN -> {
        least(left, right, result, count);
        preferNumbers(left, right, result, count);
      }
    }
  }

  @Override
  @HotPath
  void divide(int count) {
    quotient(left, ranks, result, count);
  }

  @HotPath
  static void sum(float[] a, float[] b, float[] to, int count) {
    for (int i = 0; i < count; i++) {
      to[i] = a[i] + b[i];
    }
  }

  @HotPath
  static void product(float[] a, float[] b, float[] to, int count) {
    for (int i = 0; i < count; i++) {
      to[i] = a[i] * b[i];
    }
  }

  @HotPath
  private static void greatest(float[] a, float[] b, float[] to, int count) {
    for (int i = 0; i < count; i++) {
      to[i] = Math.max(a[i], b[i]);
    }
  }

  @HotPath
  private static void least(float[] a, float[] b, float[] to, int count) {
    for (int i = 0; i < count; i++) {
      to[i] = Math.min(a[i], b[i]);
    }
  }

  /**
   * Takes the other of two numbers where one is NaN. A separate loop keeps the main loop free of
   * branches.
   */
  @HotPath
  private static void preferNumbers(float[] a, float[] b, float[] to, int count) {
    for (int i = 0; i < count; i++) {
      if (Float.isNaN(to[i])) {
        to[i] = Float.isNaN(a[i]) ? b[i] : a[i];
      }
    }
  }

  @HotPath
  static void quotient(float[] a, float divisor, float[] to, int count) {
    for (int i = 0; i < count; i++) {
      to[i] = a[i] / divisor;
    }
  }
}
