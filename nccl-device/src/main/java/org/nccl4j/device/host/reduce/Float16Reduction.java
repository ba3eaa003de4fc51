package org.nccl4j.device.host.reduce;

import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.numeric.Float16;

/**
 * float16. A float holds more than twice its bits and two more, so that rounding a sum or a product
 * to float first does not change what it rounds to.
 */
final class Float16Reduction extends ShortReduction {
  Float16Reduction(RedOp op, int ranks) {
    super(DataType.FLOAT16, op, ranks);
  }

  @Override
  @HotPath
  void combine(int count) {
    switch (op) {
      case SUM, AVG -> sum(left, right, count);
      case PROD -> product(left, right, count);
      case MAX -> greatest(left, right, count);
      case MIN -> least(left, right, count);
    }
  }

  @Override
  @HotPath
  void divide(int count) {
    for (int i = 0; i < count; i++) {
      left[i] = Float16.fromDouble(Float16.toDouble(left[i]) / ranks);
    }
  }

  @HotPath
  private static void sum(short[] a, short[] b, int count) {
    for (int i = 0; i < count; i++) {
      a[i] = Float16.fromFloat(Float16.toFloat(a[i]) + Float16.toFloat(b[i]));
    }
  }

  @HotPath
  private static void product(short[] a, short[] b, int count) {
    for (int i = 0; i < count; i++) {
      a[i] = Float16.fromFloat(Float16.toFloat(a[i]) * Float16.toFloat(b[i]));
    }
  }

  @HotPath
  private static void greatest(short[] a, short[] b, int count) {
    for (int i = 0; i < count; i++) {
      a[i] = Float16.isNaN(a[i]) || (!Float16.isNaN(b[i]) && key(b[i]) > key(a[i])) ? b[i] : a[i];
    }
  }

  @HotPath
  private static void least(short[] a, short[] b, int count) {
    for (int i = 0; i < count; i++) {
      a[i] = Float16.isNaN(a[i]) || (!Float16.isNaN(b[i]) && key(b[i]) < key(a[i])) ? b[i] : a[i];
    }
  }

  /** An integer in the order of the numbers, -0 before +0. */
  @HotPath
  private static int key(short bits) {
    return bits ^ (bits >> 31 & 0x7fff);
  }
}
