package org.nccl4j.device.host.reduce;

import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;

/** int8 and uint8. */
final class Int8Reduction extends ByteReduction {
  /** What makes the order of signed numbers that of the type. */
  private final int flip;

  private final boolean signed;

  Int8Reduction(RedOp op, int ranks, boolean signed) {
    super(DataType.INT8, op, ranks);
    this.signed = signed;
    this.flip = signed ? 0 : Byte.MIN_VALUE;
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
    int mask = signed ? -1 : 0xff;
    for (int i = 0; i < count; i++) {
      left[i] = (byte) ((left[i] & mask) / ranks);
    }
  }

  @HotPath
  private static void sum(byte[] a, byte[] b, int count) {
    for (int i = 0; i < count; i++) {
      a[i] = (byte) (a[i] + b[i]);
    }
  }

  @HotPath
  private static void product(byte[] a, byte[] b, int count) {
    for (int i = 0; i < count; i++) {
      a[i] = (byte) (a[i] * b[i]);
    }
  }

  @HotPath
  private static void greatest(byte[] a, byte[] b, int flip, int count) {
    for (int i = 0; i < count; i++) {
      a[i] = (byte) (Math.max(a[i] ^ flip, b[i] ^ flip) ^ flip);
    }
  }

  @HotPath
  private static void least(byte[] a, byte[] b, int flip, int count) {
    for (int i = 0; i < count; i++) {
      a[i] = (byte) (Math.min(a[i] ^ flip, b[i] ^ flip) ^ flip);
    }
  }
}
