package org.nccl4j.device.host.reduce;

import com.kenai.jffi.MemoryIO;
import java.util.SplittableRandom;
import org.nccl4j.device.DataType;
import org.nccl4j.device.host.memory.HostMemory;

/** Elements of tests: their memory, and values that are likely to be got wrong. */
final class Elements {
  private Elements() {}

  static HostMemory allocate(long bytes) {
    long address = MemoryIO.getInstance().allocateMemory(bytes, true);
    return new HostMemory(null, address, bytes, () -> MemoryIO.getInstance().freeMemory(address));
  }

  static void put(HostMemory memory, long offset, DataType type, long bits) {
    for (int i = 0; i < type.bytes(); i++) {
      memory.window(offset + i).put(memory.index(offset + i), (byte) (bits >>> (8 * i)));
    }
  }

  static long get(HostMemory memory, long offset, DataType type) {
    long bits = 0;
    for (int i = 0; i < type.bytes(); i++) {
      bits |= (memory.window(offset + i).get(memory.index(offset + i)) & 0xffL) << (8 * i);
    }
    return bits;
  }

  /** Zeros, ones, ends of the range, subnormals, infinities, NaNs, then random ones. */
  static long[] values(DataType type, int count, SplittableRandom random) {
    int size = 8 * type.bytes();
    long mask = size == 64 ? -1 : (1L << size) - 1;
    long sign = 1L << (size - 1);
    long one = one(type);
    long infinity = infinity(type);
    long[] magnitudes = {
      0,
      1,
      2,
      3,
      one,
      one + 1,
      one - 1,
      one + (one >>> 1),
      infinity,
      infinity - 1,
      infinity + 1,
      sign - 1,
      sign - 2,
      sign >>> 1,
      (sign >>> 1) - 1
    };
    long[] values = new long[count];
    for (int i = 0; i < count; i++) {
      if (i < 2 * magnitudes.length) {
        values[i] = (magnitudes[i / 2] | (i % 2 == 0 ? 0 : sign)) & mask;
      } else if (i % 2 == 0) {
        values[i] = random.nextLong() & mask;
      } else {
        // Of a like size, so that sums round and products stay in the range.
        values[i] = one + (random.nextLong() & (one >>> 3)) + (random.nextLong() & (one >>> 4));
        values[i] = (values[i] ^ (random.nextBoolean() ? sign : 0)) & mask;
      }
    }
    return values;
  }

  private static long one(DataType type) {
    return switch (type) {
      case FLOAT16 -> 0x3c00;
      case BFLOAT16 -> 0x3f80;
      case FLOAT32 -> Float.floatToRawIntBits(1);
      case FLOAT64 -> Double.doubleToRawLongBits(1);
      case FLOAT8_E4M3 -> 0x38;
      case FLOAT8_E5M2 -> 0x3c;
      default -> 1L << (4 * type.bytes());
    };
  }

  private static long infinity(DataType type) {
    return switch (type) {
      case FLOAT16 -> 0x7c00;
      case BFLOAT16 -> 0x7f80;
      case FLOAT32 -> 0x7f800000;
      case FLOAT64 -> 0x7ff0000000000000L;
      case FLOAT8_E4M3 -> 0x7e;
      case FLOAT8_E5M2 -> 0x7c;
      default -> 100;
    };
  }
}
