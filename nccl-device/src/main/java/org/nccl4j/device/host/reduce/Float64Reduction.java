package org.nccl4j.device.host.reduce;

import java.nio.ByteBuffer;
import java.nio.DoubleBuffer;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.bind.NativeMemory;

/** float64; as {@link Float32Reduction}, where it says why. */
final class Float64Reduction extends StagedReduction {
  private final double[] left = new double[BLOCK_BYTES >> 3];
  private final double[] right = new double[BLOCK_BYTES >> 3];
  private final double[] result = new double[BLOCK_BYTES >> 3];
  private final Views<DoubleBuffer> views = new Views<>(ByteBuffer::asDoubleBuffer, 8);

  Float64Reduction(RedOp op, int ranks) {
    super(DataType.FLOAT64, op, ranks);
  }

  @Override
  @HotPath
  void combineFew(
      ByteBuffer a, int aIndex, ByteBuffer b, int bIndex, ByteBuffer to, int toIndex, int count) {
    for (int i = 0; i < count; i++) {
      to.putDouble(
          toIndex + (i << 3), one(a.getDouble(aIndex + (i << 3)), b.getDouble(bIndex + (i << 3))));
    }
  }

  @Override
  @HotPath
  void addFew(long a, long b, long to, int bytes) {
    for (int at = 0; at < bytes; at += 8) {
      double x = Double.longBitsToDouble(NativeMemory.getLong(a + at));
      double y = Double.longBitsToDouble(NativeMemory.getLong(b + at));
      NativeMemory.putLong(to + at, Double.doubleToRawLongBits(x + y));
    }
  }

  @Override
  @HotPath
  void divideFew(ByteBuffer from, int fromIndex, ByteBuffer to, int toIndex, int count) {
    for (int i = 0; i < count; i++) {
      to.putDouble(toIndex + (i << 3), from.getDouble(fromIndex + (i << 3)) / ranks);
    }
  }

  @HotPath
  private double one(double a, double b) {
    if (adds) {
      return a + b;
    }
    return switch (op) {
      case SUM, AVG -> a + b;
      case PROD -> a * b;
      case MAX -> Double.isNaN(a) ? b : Double.isNaN(b) ? a : Math.max(a, b);
      case MIN -> Double.isNaN(a) ? b : Double.isNaN(b) ? a : Math.min(a, b);
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
  private void load(ByteBuffer window, int index, double[] to, int count) {
    views.of(window, index).get(index >> 3, to, 0, count);
  }

  @Override
  @HotPath
  void store(ByteBuffer window, int index, int count) {
    views.of(window, index).put(index >> 3, result, 0, count);
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
  private static void sum(double[] a, double[] b, double[] to, int count) {
    for (int i = 0; i < count; i++) {
      to[i] = a[i] + b[i];
    }
  }

  @HotPath
  private static void product(double[] a, double[] b, double[] to, int count) {
    for (int i = 0; i < count; i++) {
      to[i] = a[i] * b[i];
    }
  }

  @HotPath
  private static void greatest(double[] a, double[] b, double[] to, int count) {
    for (int i = 0; i < count; i++) {
      to[i] = Math.max(a[i], b[i]);
    }
  }

  @HotPath
  private static void least(double[] a, double[] b, double[] to, int count) {
    for (int i = 0; i < count; i++) {
      to[i] = Math.min(a[i], b[i]);
    }
  }

  /**
   * Takes the other of two numbers where one is NaN. A separate loop keeps the main loop free of
   * branches.
   */
  @HotPath
  private static void preferNumbers(double[] a, double[] b, double[] to, int count) {
    for (int i = 0; i < count; i++) {
      if (Double.isNaN(to[i])) {
        to[i] = Double.isNaN(a[i]) ? b[i] : a[i];
      }
    }
  }

  @HotPath
  private static void quotient(double[] a, double divisor, double[] to, int count) {
    for (int i = 0; i < count; i++) {
      to[i] = a[i] / divisor;
    }
  }
}
