package org.nccl4j.device.host.reduce;

import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.bind.NativeMemory;

/** int8 and uint8, but for their order. */
final class Int8Reduction extends ByteReduction {
  private final byte[] quotients = new byte[1 << 8];

  Int8Reduction(RedOp op, int ranks, boolean signed) {
    super(DataType.INT8, op, ranks, FEW);
    for (int bits = 0; bits < quotients.length; bits++) {
      quotients[bits] = (byte) ((signed ? (byte) bits : bits) / ranks);
    }
  }

  @Override
  @HotPath
  byte one(byte a, byte b) {
    if (adds) {
      return (byte) (a + b);
    }
    return switch (op) {
      case SUM, AVG -> (byte) (a + b);
      case PROD -> (byte) (a * b);
      default -> throw new IllegalStateException(op + " is made by Int8Order");
    };
  }

  @Override
  @HotPath
  void addFew(long a, long b, long to, int bytes) {
    for (int at = 0; at < bytes; at += 1) {
      byte sum = (byte) (NativeMemory.getByte(a + at) + NativeMemory.getByte(b + at));
      NativeMemory.putByte(to + at, sum);
    }
  }

  @Override
  @HotPath
  byte quotient(byte a) {
    return quotients[a & 0xff];
  }

  @Override
  @HotPath
  void combine(int count) {
    switch (op) {
      case SUM, AVG -> sum(left, right, count);
      case PROD -> product(left, right, count);
      default -> throw new IllegalStateException(op + " is made by Int8Order");
    }
  }

  @Override
  @HotPath
  void divide(int count) {
    for (int i = 0; i < count; i++) {
      left[i] = quotient(left[i]);
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
}
