package org.nccl4j.device.host.reduce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.fail;

import java.util.ArrayList;
import java.util.List;
import java.util.SplittableRandom;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.numeric.Bfloat16;
import org.nccl4j.device.numeric.Float16;
import org.nccl4j.device.numeric.Float8E4m3;
import org.nccl4j.device.numeric.Float8E5m2;

/** Every type and operator against exact arithmetic, at all counts and places that differ. */
class ReductionTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 20260101);

  static Stream<Arguments> cases() {
    List<Arguments> cases = new ArrayList<>();
    for (DataType type : DataType.values()) {
      for (RedOp op : RedOp.values()) {
        cases.add(Arguments.of(type, op));
      }
    }
    return cases.stream();
  }

  @ParameterizedTest
  @MethodSource("cases")
  void combinesAsExactArithmeticRoundedOnce(DataType type, RedOp op) {
    SplittableRandom random = new SplittableRandom(SEED);
    Oracle oracle = new Oracle(type);
    combinesExactly(Reductions.of(type, op, 3), type, op, oracle, random);
  }

  /** Sums of these types go through arrays only where machine code cannot run. */
  @ParameterizedTest
  @EnumSource(names = {"INT8", "UINT8", "INT32", "UINT32", "INT64", "UINT64", "FLOAT32", "FLOAT64"})
  void addsThroughArraysAsExactArithmeticRoundedOnce(DataType type) {
    StagedReduction reduction = (StagedReduction) Reductions.of(type, RedOp.SUM, 3);
    reduction.addThroughArrays();
    combinesExactly(reduction, type, RedOp.SUM, new Oracle(type), new SplittableRandom(SEED));
  }

  private static void combinesExactly(
      Reduction reduction, DataType type, RedOp op, Oracle oracle, SplittableRandom random) {
    long[] specials = Elements.values(type, 48, random);
    long[] a = Elements.values(type, 6000, random);
    long[] b = Elements.values(type, a.length, random);
    for (int i = 0; i < specials.length * specials.length; i++) {
      a[i] = specials[i / specials.length];
      b[i] = specials[i % specials.length];
    }
    int size = type.bytes();
    HostMemory memory = Elements.allocate(3L * a.length * size);
    long second = (long) a.length * size;
    for (int i = 0; i < a.length; i++) {
      Elements.put(memory, (long) i * size, type, a[i]);
      Elements.put(memory, second + (long) i * size, type, b[i]);
    }
    // Interpreted at first, then by vectors, once the loops have been compiled.
    for (int calls : new int[] {1, 1000}) {
      for (int call = 0; call < calls; call++) {
        reduction.reduce(memory, 0, memory, second, memory, 2 * second, a.length);
      }
      for (int i = 0; i < a.length; i++) {
        long expected = oracle.combine(op, a[i], b[i]);
        long offset = 2 * second + (long) i * size;
        check(oracle, expected, Elements.get(memory, offset, type), type + " " + op, a[i], b[i]);
      }
    }
    HostMemory one = Elements.allocate(size);
    for (int i = 0; i < a.length; i++) {
      long expected = oracle.combine(op, a[i], b[i]);
      reduction.reduce(memory, (long) i * size, memory, second + (long) i * size, one, 0, 1);
      check(oracle, expected, Elements.get(one, 0, type), type + " one " + op, a[i], b[i]);
    }
    one.close();
    memory.close();
  }

  @ParameterizedTest
  @MethodSource("cases")
  void averagesByOneCorrectlyRoundedDivision(DataType type, RedOp op) {
    if (op != RedOp.AVG) {
      Reduction reduction = Reductions.of(type, op, 3);
      assertEquals(false, reduction.hasPrepare() || reduction.hasFinish());
      return;
    }
    SplittableRandom random = new SplittableRandom(SEED);
    Oracle oracle = new Oracle(type);
    long[] values = Elements.values(type, 5000, random);
    int size = type.bytes();
    HostMemory memory = Elements.allocate(2L * values.length * size);
    long second = (long) values.length * size;
    for (int ranks : new int[] {1, 2, 3, 5, 7, 8, 10, 127, 128, 255, 256, 1000, 2047, 65537}) {
      Reduction reduction = Reductions.of(type, op, ranks);
      assertEquals(ranks > 1 && type.isFloatingPoint(), reduction.hasPrepare());
      assertEquals(ranks > 1 && !type.isFloatingPoint(), reduction.hasFinish());
      for (int i = 0; i < values.length; i++) {
        Elements.put(memory, (long) i * size, type, values[i]);
      }
      for (int call = 0; call < 100; call++) {
        reduction.prepare(memory, 0, memory, second, values.length);
      }
      reduction.finish(memory, second, values.length);
      for (int i = 0; i < values.length; i++) {
        long expected = ranks == 1 ? values[i] : oracle.divide(values[i], ranks);
        long actual = Elements.get(memory, second + (long) i * size, type);
        check(oracle, expected, actual, type + " / " + ranks, values[i], ranks);
      }
    }
    memory.close();
  }

  @ParameterizedTest
  @MethodSource("cases")
  void anyCountPlaceAndAlias(DataType type, RedOp op) {
    SplittableRandom random = new SplittableRandom(SEED);
    Oracle oracle = new Oracle(type);
    Reduction reduction = Reductions.of(type, op, 2);
    long[] pool = Elements.values(type, 40, random);
    long[][] expected = new long[pool.length][pool.length];
    for (int a = 0; a < pool.length; a++) {
      for (int b = 0; b < pool.length; b++) {
        expected[a][b] = oracle.combine(op, pool[a], pool[b]);
      }
    }
    int block = StagedReduction.BLOCK_BYTES / type.bytes();
    int few = StagedReduction.FEW;
    int[] counts = {
      0,
      1,
      2,
      3,
      7,
      few - 1,
      few,
      few + 1,
      31,
      33,
      100,
      block - 1,
      block,
      block + 1,
      block + few,
      2 * block + 5
    };
    HostMemory[] memories = new HostMemory[3];
    for (int m = 0; m < memories.length; m++) {
      memories[m] = Elements.allocate(3L * StagedReduction.BLOCK_BYTES);
    }
    for (int count : counts) {
      for (Alias alias : Alias.values()) {
        new Placement(type, alias, memories, count, random).run(reduction, oracle, pool, expected);
      }
    }
    for (HostMemory memory : memories) {
      memory.close();
    }
  }

  /** Counts of one loop and of the other, of blocks and of their ends; the target is an operand. */
  @ParameterizedTest
  @MethodSource("cases")
  void combinesManyOperandsInFloatsRoundedOnce(DataType type, RedOp op) {
    boolean isNarrow = type.isFloatingPoint() && type.bytes() < Float.BYTES;
    Reduction reduction = Reductions.of(type, op, 5);
    assertEquals(isNarrow && op != RedOp.MAX && op != RedOp.MIN, reduction.widens());
    if (!reduction.widens()) {
      return;
    }
    SplittableRandom random = new SplittableRandom(SEED);
    Oracle oracle = new Oracle(type);
    int size = type.bytes();
    for (int ranks : new int[] {2, 3, 9}) {
      for (int count : new int[] {1, 64, 65, 127, 4097}) {
        long[][] values = new long[ranks][];
        List<HostMemory> memories = new ArrayList<>();
        Operands operands = new Operands();
        int offset = random.nextInt(9);
        for (int rank = 0; rank < ranks; rank++) {
          values[rank] = Elements.values(type, count, random);
          HostMemory memory = Elements.allocate(offset + (long) count * size);
          for (int i = 0; i < count; i++) {
            Elements.put(memory, offset + (long) i * size, type, values[rank][i]);
          }
          memories.add(memory);
          if (op == RedOp.AVG && rank != 1) {
            operands.addUnprepared(memory, offset);
          } else {
            operands.add(memory, offset);
          }
        }
        HostMemory target = memories.get(random.nextInt(ranks));
        reduction.reduceAll(operands, target, offset, count);
        for (int i = 0; i < count; i++) {
          float wide = Float.NaN;
          for (int rank = 0; rank < ranks; rank++) {
            float term = Wide.of(type, values[rank][i]) / (op == RedOp.AVG && rank != 1 ? 5 : 1);
            wide = rank == 0 ? term : op == RedOp.PROD ? wide * term : wide + term;
          }
          long expected = Wide.rounded(type, wide);
          long actual = Elements.get(target, offset + (long) i * size, type);
          check(oracle, expected, actual, type + " " + op + " of " + ranks, count, i);
        }
        memories.forEach(HostMemory::close);
      }
    }
  }

  /** Conversions to and from float32, which ConversionTest compares with exact arithmetic. */
  private static final class Wide {
    static float of(DataType type, long bits) {
      return switch (type) {
        case FLOAT16 -> Float16.toFloat((short) bits);
        case BFLOAT16 -> Bfloat16.toFloat((short) bits);
        case FLOAT8_E4M3 -> Float8E4m3.toFloat((byte) bits);
        default -> Float8E5m2.toFloat((byte) bits);
      };
    }

    static long rounded(DataType type, float wide) {
      return switch (type) {
        case FLOAT16 -> Float16.fromFloat(wide) & 0xffff;
        case BFLOAT16 -> Bfloat16.fromFloat(wide) & 0xffff;
        case FLOAT8_E4M3 -> Float8E4m3.fromFloat(wide) & 0xff;
        default -> Float8E5m2.fromFloat(wide) & 0xff;
      };
    }
  }

  private enum Alias {
    NONE,
    TARGET_IS_A,
    TARGET_IS_B,
    ALL
  }

  /** Operands and target at offsets of any alignment, with a mark before and after the target. */
  private record Placement(
      DataType type, Alias alias, HostMemory[] memories, int count, SplittableRandom random) {

    void run(Reduction reduction, Oracle oracle, long[] pool, long[][] expected) {
      int size = type.bytes();
      HostMemory target = memories[2];
      HostMemory a = alias == Alias.TARGET_IS_A || alias == Alias.ALL ? target : memories[0];
      HostMemory b = alias == Alias.TARGET_IS_B || alias == Alias.ALL ? target : memories[1];
      long targetOffset = 1L + random.nextInt(16);
      long aOffset = a.equals(target) ? targetOffset : random.nextInt(16);
      long bOffset = b.equals(target) ? targetOffset : random.nextInt(16);
      target.fill((byte) 0x5a);
      int[] left = new int[count];
      int[] right = new int[count];
      for (int i = 0; i < count; i++) {
        left[i] = random.nextInt(pool.length);
        right[i] = alias == Alias.ALL ? left[i] : random.nextInt(pool.length);
        Elements.put(a, aOffset + (long) i * size, type, pool[left[i]]);
        Elements.put(b, bOffset + (long) i * size, type, pool[right[i]]);
      }
      reduction.reduce(a, aOffset, b, bOffset, target, targetOffset, count);
      String where = type + " count " + count + " " + alias + " at " + targetOffset;
      for (int i = 0; i < count; i++) {
        long actual = Elements.get(target, targetOffset + (long) i * size, type);
        long wanted = expected[left[i]][right[i]];
        check(oracle, wanted, actual, where + " [" + i + "]", pool[left[i]], pool[right[i]]);
      }
      long end = targetOffset + (long) count * size;
      assertEquals(0x5a, Elements.get(target, targetOffset - 1, DataType.INT8), where);
      assertEquals(0x5a, Elements.get(target, end, DataType.INT8), where);
    }
  }

  @Test
  void prepareWithoutDivisionCopies() {
    HostMemory memory = Elements.allocate(64);
    for (int i = 0; i < 30; i++) {
      Elements.put(memory, 1 + i, DataType.INT8, i + 1);
    }
    Reductions.of(DataType.FLOAT16, RedOp.SUM, 4).prepare(memory, 1, memory, 33, 15);
    for (int i = 0; i < 30; i++) {
      assertEquals(i + 1, Elements.get(memory, 33 + i, DataType.INT8));
    }
    memory.close();
  }

  @Test
  void refusesNoRanks() {
    assertThrows(InvalidArgumentException.class, () -> Reductions.of(DataType.INT8, RedOp.SUM, 0));
  }

  private static void check(
      Oracle oracle, long expected, long actual, String what, long a, long b) {
    if (!oracle.accepts(expected, actual)) {
      fail(
          String.format(
              "%s of %x and %x gave %x, not %x (-Dnccl4j.seed=%d)",
              what, a, b, actual, expected, SEED));
    }
  }
}
