package org.nccl4j.device.host.reduce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.SplittableRandom;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.memory.StreamingCopy;

/** The machine code of sums; {@link ReductionTest} has all values, counts and places. */
class VectorSumTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);

  /** Bytes of an operand, with room for places that are no multiple of anything. */
  private static final int MOST = 1024 + 64;

  @Test
  void runsWhereOtherMachineCodeDoes() {
    assertEquals(StreamingCopy.open().isAvailable(), VectorSum.of(DataType.FLOAT32).isAvailable());
  }

  @Test
  void typesThatSumsWidenAreLeftAlone() {
    assertFalse(VectorSum.has(DataType.FLOAT16));
    assertFalse(VectorSum.has(DataType.BFLOAT16));
    assertFalse(VectorSum.has(DataType.FLOAT8_E4M3));
    assertTrue(VectorSum.has(DataType.INT8));
  }

  /** The sums are those of the loops over arrays, and the bytes around them stay. */
  @ParameterizedTest
  @EnumSource(names = {"INT8", "UINT8", "INT32", "UINT32", "INT64", "UINT64", "FLOAT32", "FLOAT64"})
  void addsAllBytesAndNoOthers(DataType type) {
    VectorSum sum = VectorSum.of(type);
    assumeTrue(sum.isAvailable());
    StagedReduction staged = (StagedReduction) Reductions.of(type, RedOp.SUM, 2);
    staged.addThroughArrays();
    SplittableRandom random = new SplittableRandom(SEED);
    HostMemory a = Elements.allocate(MOST);
    HostMemory b = Elements.allocate(MOST);
    HostMemory actual = Elements.allocate(MOST);
    HostMemory expected = Elements.allocate(MOST);
    for (int turn = 0; turn < 200; turn++) {
      for (int at = 0; at < MOST; at++) {
        // Exponents that are no infinity and no NaN, of which any may come out.
        put(a, at, random.nextInt() & 0x3f);
        put(b, at, random.nextInt() & 0x3f);
        int before = random.nextInt();
        put(actual, at, before);
        put(expected, at, before);
      }
      int aAt = random.nextInt(64);
      int bAt = random.nextInt(64);
      int to = random.nextInt(64);
      int bytes = VectorSum.STEP * (1 + random.nextInt(16));
      sum.add(a, aAt, b, bAt, actual, to, bytes);
      staged.reduce(a, aAt, b, bAt, expected, to, bytes / type.bytes());
      for (int at = 0; at < MOST; at++) {
        assertEquals(get(expected, at), get(actual, at), "seed " + SEED + ", turn " + turn);
      }
    }
    a.close();
    b.close();
    actual.close();
    expected.close();
  }

  /** A few elements are added at their addresses, and from byte buffers where there are none. */
  @ParameterizedTest
  @EnumSource(names = {"INT8", "UINT8", "INT32", "UINT32", "INT64", "UINT64", "FLOAT32", "FLOAT64"})
  void aFewElementsHaveTheSameSumsWithoutAddresses(DataType type) {
    StagedReduction usual = (StagedReduction) Reductions.of(type, RedOp.SUM, 2);
    StagedReduction without = (StagedReduction) Reductions.of(type, RedOp.SUM, 2);
    without.addThroughArrays();
    SplittableRandom random = new SplittableRandom(SEED);
    HostMemory a = Elements.allocate(MOST);
    HostMemory b = Elements.allocate(MOST);
    HostMemory actual = Elements.allocate(MOST);
    HostMemory expected = Elements.allocate(MOST);
    for (int count = 1; count <= 100; count++) {
      for (int at = 0; at < MOST; at++) {
        put(a, at, random.nextInt() & 0x3f);
        put(b, at, random.nextInt() & 0x3f);
        int before = random.nextInt();
        put(actual, at, before);
        put(expected, at, before);
      }
      int aAt = random.nextInt(64);
      int bAt = random.nextInt(64);
      int to = random.nextInt(64);
      usual.reduce(a, aAt, b, bAt, actual, to, count);
      without.reduce(a, aAt, b, bAt, expected, to, count);
      for (int at = 0; at < MOST; at++) {
        assertEquals(get(expected, at), get(actual, at), "seed " + SEED + ", " + count);
      }
    }
    a.close();
    b.close();
    actual.close();
    expected.close();
  }

  private static void put(HostMemory memory, int at, int value) {
    Elements.put(memory, at, DataType.INT8, value);
  }

  private static long get(HostMemory memory, int at) {
    return Elements.get(memory, at, DataType.INT8);
  }
}
