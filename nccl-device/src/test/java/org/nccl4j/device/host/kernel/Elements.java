package org.nccl4j.device.host.kernel;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.numeric.Bfloat16;
import org.nccl4j.device.numeric.Float16;
import org.nccl4j.device.numeric.Float8E4m3;
import org.nccl4j.device.numeric.Float8E5m2;

/**
 * Test data whose combinations are exact in every type, and what they combine to, computed in
 * integers.
 */
record Elements(DataType type, RedOp op, int ranks, long seed) {
  /** The small integer that a rank has at a place. */
  int input(int rank, long place) {
    int bits = (int) (hash(rank, place) >>> 33);
    return switch (op) {
      case SUM -> bits & 1;
      case PROD -> rank < 3 ? 1 + (bits & 1) : 1;
      case MIN, MAX -> bits & 7;
      case AVG -> (int) (hash(0, place) >>> 33) & 1;
    };
  }

  /** The result of all ranks' integers at a place. */
  int expected(long place) {
    int result = input(0, place);
    for (int rank = 1; rank < ranks; rank++) {
      int next = input(rank, place);
      result =
          switch (op) {
            case SUM -> result + next;
            case PROD -> result * next;
            case MIN -> Math.min(result, next);
            case MAX -> Math.max(result, next);
            case AVG -> result;
          };
    }
    return result;
  }

  private long hash(int rank, long place) {
    long h = (seed * 31 + rank) * 0x9E3779B97F4A7C15L + place * 0xC2B2AE3D27D4EB4FL;
    h ^= h >>> 29;
    h *= 0xBF58476D1CE4E5B9L;
    return h ^ h >>> 32;
  }

  /** A rank's data from a place on. */
  ByteBuffer data(int rank, long from, int count) {
    ByteBuffer out = ByteBuffer.allocate(count * type.bytes()).order(ByteOrder.nativeOrder());
    for (int i = 0; i < count; i++) {
      put(type, out, input(rank, from + i));
    }
    return out.flip();
  }

  /** The results at some places from one on. */
  int[] expected(long from, int count) {
    int[] all = new int[count];
    Arrays.setAll(all, i -> expected(from + i));
    return all;
  }

  /** The first place at which data are not the combination, or -1. */
  int firstWrong(ByteBuffer data, long from) {
    return firstWrong(data, expected(from, data.remaining() / type.bytes()));
  }

  /** The first place at which data are not what was expected of the same places, or -1. */
  int firstWrong(ByteBuffer data, int[] expected) {
    data.order(ByteOrder.nativeOrder());
    double tolerance = tolerance();
    for (int i = 0; data.hasRemaining(); i++) {
      if (Math.abs(get(type, data) - expected[i]) > tolerance) {
        return i;
      }
    }
    return -1;
  }

  /** The first place at which data are not a rank's own, or -1. */
  int firstWrongCopy(ByteBuffer data, int rank, long from) {
    data.order(ByteOrder.nativeOrder());
    for (int i = 0; data.hasRemaining(); i++) {
      if (get(type, data) != input(rank, from + i)) {
        return i;
      }
    }
    return -1;
  }

  /** The mean is not exact when the number of ranks is not a power of two. */
  private double tolerance() {
    if (op != RedOp.AVG || !type.isFloatingPoint() || Integer.bitCount(ranks) == 1) {
      return 0;
    }
    return switch (type) {
      case FLOAT8_E4M3 -> 0.9;
      case FLOAT8_E5M2 -> 1.3;
      case BFLOAT16 -> 0.1;
      default -> 0.01;
    };
  }

  /** Puts a number that the type has, or the nearest of floating-point types. */
  static void put(DataType type, ByteBuffer out, float value) {
    switch (type) {
      case INT8, UINT8 -> out.put((byte) value);
      case INT32, UINT32 -> out.putInt((int) value);
      case INT64, UINT64 -> out.putLong((long) value);
      case FLOAT16 -> out.putShort(Float16.fromFloat(value));
      case BFLOAT16 -> out.putShort(Bfloat16.fromFloat(value));
      case FLOAT32 -> out.putFloat(value);
      case FLOAT64 -> out.putDouble(value);
      case FLOAT8_E4M3 -> out.put(Float8E4m3.fromFloat(value));
      case FLOAT8_E5M2 -> out.put(Float8E5m2.fromFloat(value));
    }
  }

  /** The next number. */
  static double get(DataType type, ByteBuffer in) {
    return switch (type) {
      case INT8 -> in.get();
      case UINT8 -> in.get() & 0xff;
      case INT32 -> in.getInt();
      case UINT32 -> in.getInt() & 0xffffffffL;
      case INT64, UINT64 -> in.getLong();
      case FLOAT16 -> Float16.toFloat(in.getShort());
      case BFLOAT16 -> Bfloat16.toFloat(in.getShort());
      case FLOAT32 -> in.getFloat();
      case FLOAT64 -> in.getDouble();
      case FLOAT8_E4M3 -> Float8E4m3.toFloat(in.get());
      case FLOAT8_E5M2 -> Float8E5m2.toFloat(in.get());
    };
  }
}
