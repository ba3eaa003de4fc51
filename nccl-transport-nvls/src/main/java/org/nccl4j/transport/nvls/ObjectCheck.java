package org.nccl4j.transport.nvls;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.symmetric.MulticastMemory;
import org.nccl4j.operation.Operation;

/**
 * The check of a multicast object before its first use. Every member writes numbers of all types
 * into its own memory. Then each loads them combined by each operator, and compares them with what
 * it computes from all members' numbers, which it knows. Then each stores a part of the range to
 * all memories, and everyone looks at all parts. It uses the slots of one connection, and leaves
 * zeros.
 *
 * @param device of this member
 * @param own this member's memory
 * @param spare memory of this member's alone, of {@link #BYTES}; nothing is allocated, which could
 *     wait for kernels
 * @param all members' memories
 * @param member this one's number
 * @param members how many
 * @param bytes whether the switch combines floats of 8 bits
 */
record ObjectCheck(
    KernelDevice device,
    DeviceMemory own,
    DeviceMemory spare,
    MulticastMemory all,
    int member,
    int members,
    boolean bytes) {
  private static final int PACK = 16;
  private static final int FEW = 4;

  /** Packs of each type: an odd number, so that ranges begin and end anywhere in a line. */
  private static final int PACKS = 31;

  private static final int TYPE_BYTES = PACKS * PACK;
  private static final List<RedOp> OPERATORS = List.of(RedOp.SUM, RedOp.MIN, RedOp.MAX);
  private static final List<DataType> TYPES =
      Stream.of(DataType.values())
          .filter(type -> Nvls.has(Operation.ALL_REDUCE, type, RedOp.SUM) || type.isFloat8())
          .toList();

  /** Bytes of the memory that are used, at its begin. */
  static final int BYTES = TYPE_BYTES * TYPES.size();

  /**
   * Takes the steps of the test with all other ranks.
   *
   * @throws CollectiveSteps.Refused the same on all ranks, with the first rank that saw a wrong
   *     number
   */
  void run(CollectiveSteps steps) throws CollectiveSteps.Refused {
    steps.take(
        "write numbers to test its multicast object",
        () -> {
          own.write(0, numbers(member));
          return "";
        });
    steps.take(
        "have right results of its multicast object",
        () -> {
          checkLoads();
          return "";
        });
    steps.take(
        "store by its multicast object",
        () -> {
          storePart();
          return "";
        });
    steps.take(
        "see all stores by its multicast object",
        () -> {
          check(read(own.slice(0, BYTES)), stored(), "of the stores");
          own.write(0, ByteBuffer.allocate(BYTES));
          spare.write(0, ByteBuffer.allocate(BYTES));
          return "";
        });
  }

  /** The whole range of each type, and one pack of it. */
  private void checkLoads() throws CollectiveSteps.Refused {
    for (int type = 0; type < TYPES.size(); type++) {
      for (RedOp op : OPERATORS) {
        if (Nvls.has(Operation.ALL_REDUCE, TYPES.get(type), op)
            || bytes && TYPES.get(type).isFloat8()) {
          checkLoad(type, op, 0, spare.slice(0, TYPE_BYTES));
          checkLoad(type, op, PACK * (PACKS / 2), spare.slice(0, PACK));
        }
      }
    }
  }

  private void checkLoad(int number, RedOp op, int from, DeviceMemory target)
      throws CollectiveSteps.Refused {
    DataType type = TYPES.get(number);
    device.loadCombined(all, type, op, (long) number * TYPE_BYTES + from, target);
    ByteBuffer expected = buffer((int) target.size());
    for (int element = 0; expected.hasRemaining(); element++) {
      put(expected, type, combined(type, op, from / type.bytes() + element));
    }
    check(read(target), expected.flip(), "of the %s of %s".formatted(op.label(), type.label()));
  }

  private void storePart() {
    ByteBuffer part = stored();
    int begin = begin(member);
    int bytes = begin(member + 1) - begin;
    if (bytes > 0) {
      spare.write(0, part.slice(begin, bytes));
      device.storeToAll(spare.slice(0, bytes), all, begin);
    }
  }

  /** Where a member's part of the stores begins. */
  private int begin(int number) {
    return BYTES / PACK * number / members * PACK;
  }

  /** Bytes that differ from what was there, and from each other. */
  private static ByteBuffer stored() {
    ByteBuffer bytes = buffer(BYTES);
    for (int word = 0; bytes.hasRemaining(); word++) {
      bytes.putInt(0x5a000001 + 0x010305 * word);
    }
    return bytes.flip();
  }

  private static ByteBuffer numbers(int of) {
    ByteBuffer bytes = buffer(BYTES);
    for (DataType type : TYPES) {
      for (int element = 0; element < TYPE_BYTES / type.bytes(); element++) {
        put(bytes, type, number(type, of, element));
      }
    }
    return bytes.flip();
  }

  /** A member's number: with bits in all bytes of integers, and from -2 to 2 for floats. */
  private static long number(DataType type, int of, int element) {
    long small = Math.floorMod(7 * element + 3 * of, 5);
    return switch (type) {
      // Few enough members have other numbers than 0 that 2 bits hold each sum.
      case FLOAT8_E4M3, FLOAT8_E5M2 -> of < FEW ? small - 2 : 0;
      case UINT32 -> small * 0x30000001L;
      case INT32 -> (int) ((small - 2) * 0x21000301L);
      case UINT64 -> small * 0x3000000000000001L;
      case INT64 -> (small - 2) * 0x2100000000000301L;
      default -> small - 2;
    };
  }

  private long combined(DataType type, RedOp op, int element) {
    LongStream numbers = IntStream.range(0, members).mapToLong(each -> number(type, each, element));
    if (op == RedOp.SUM) {
      return numbers.sum();
    }
    // Unsigned numbers in the order of signed ones.
    long flip = type == DataType.UINT64 ? Long.MIN_VALUE : 0;
    LongStream ordered = numbers.map(each -> each ^ flip);
    return (op == RedOp.MIN ? ordered.min() : ordered.max()).orElseThrow() ^ flip;
  }

  private static void put(ByteBuffer to, DataType type, long number) {
    if (type.isFloat8()) {
      to.put((byte) (type == DataType.FLOAT8_E4M3 ? narrow(number, 4, 3) : narrow(number, 5, 2)));
      return;
    }
    if (type.isFloatingPoint() && type.bytes() == 2) {
      boolean isHalf = type == DataType.FLOAT16; // else the upper half of a float
      to.putShort(
          isHalf ? (short) narrow(number, 5, 10) : (short) (Float.floatToIntBits(number) >>> 16));
      return;
    }
    switch (type) {
      case FLOAT32 -> to.putFloat(number);
      case FLOAT64 -> to.putDouble(number);
      case INT32, UINT32 -> to.putInt((int) number);
      default -> to.putLong(number);
    }
  }

  /**
   * A small whole number as a floating-point number that holds it exactly.
   *
   * @param exponents bits of its exponent
   * @param fractions bits of its fraction
   */
  private static int narrow(long number, int exponents, int fractions) {
    int size = (int) Math.abs(number);
    if (size == 0) {
      return 0;
    }
    int exponent = 31 - Integer.numberOfLeadingZeros(size);
    int fraction =
        (fractions < exponent ? size >> exponent - fractions : size << fractions - exponent)
            & (1 << fractions) - 1;
    int bias = (1 << exponents - 1) - 1;
    int sign = number < 0 ? 1 << exponents + fractions : 0;
    return sign | exponent + bias << fractions | fraction;
  }

  private static ByteBuffer read(DeviceMemory memory) {
    ByteBuffer bytes = buffer((int) memory.size());
    memory.read(0, bytes);
    return bytes.flip();
  }

  private static ByteBuffer buffer(int bytes) {
    return ByteBuffer.allocate(bytes).order(ByteOrder.nativeOrder());
  }

  private static void check(ByteBuffer seen, ByteBuffer expected, String what)
      throws CollectiveSteps.Refused {
    int at = seen.mismatch(expected);
    if (at >= 0) {
      throw new CollectiveSteps.Refused(
          "byte %d %s is 0x%02x instead of 0x%02x"
              .formatted(at, what, seen.get(at), expected.get(at)));
    }
  }
}
