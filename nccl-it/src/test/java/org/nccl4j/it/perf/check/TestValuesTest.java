package org.nccl4j.it.perf.check;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;

/** The generator and the plain arithmetic against exact arithmetic in random orders. */
final class TestValuesTest {
  private static final int ELEMENTS = 400;

  static Stream<Arguments> combinations() {
    return Stream.of(DataType.values())
        .flatMap(
            type ->
                Stream.of(RedOp.values())
                    .flatMap(
                        op -> Stream.of(1, 2, 3, 4, 7, 8).map(n -> Arguments.of(type, op, n))));
  }

  @ParameterizedTest
  @MethodSource("combinations")
  void anyOrderGivesTheExpected(DataType type, RedOp op, int nRanks) {
    TestValues values = new TestValues(type, op, nRanks, 42);
    Combination combination = new Combination(type, op, nRanks, values);
    Random random = new Random(7);
    for (int index = 0; index < ELEMENTS; index++) {
      List<Integer> order = new ArrayList<>();
      for (int rank = 0; rank < nRanks; rank++) {
        order.add(rank);
      }
      Collections.shuffle(order, random);
      if (type.isFloatingPoint()) {
        floating(type, op, values, combination.floating(index), order, index);
      } else {
        integer(type, op, values, combination.integer(index), order, index);
      }
    }
  }

  private static void floating(
      DataType type, RedOp op, TestValues values, double expected, List<Integer> order, int index) {
    BigDecimal exact = null;
    for (int rank : order) {
      double value = values.floating(rank, index);
      assertEquals(value, rounded(type, value), "not a number of the type");
      BigDecimal next = new BigDecimal(value);
      exact =
          exact == null
              ? next
              : switch (op) {
                case SUM, AVG -> exact.add(next);
                case PROD -> exact.multiply(next);
                case MIN -> exact.min(next);
                case MAX -> exact.max(next);
              };
      assertEquals(exact.doubleValue(), rounded(type, exact.doubleValue()), "partial is rounded");
    }
    int divisor = op == RedOp.AVG ? order.size() : 1;
    assertEquals(exact.doubleValue() / divisor, expected);
  }

  private static void integer(
      DataType type, RedOp op, TestValues values, long expected, List<Integer> order, int index) {
    boolean signed = type == DataType.INT8 || type == DataType.INT32 || type == DataType.INT64;
    BigInteger exact = null;
    for (int rank : order) {
      BigInteger next = fitted(BigInteger.valueOf(values.integer(rank, index)), type, signed);
      exact =
          exact == null
              ? next
              : switch (op) {
                case SUM, AVG -> fitted(exact.add(next), type, signed);
                case PROD -> fitted(exact.multiply(next), type, signed);
                case MIN -> exact.min(next);
                case MAX -> exact.max(next);
              };
    }
    if (op == RedOp.AVG) {
      exact = exact.divide(BigInteger.valueOf(order.size()));
    }
    assertEquals(exact, fitted(BigInteger.valueOf(expected), type, signed));
  }

  private static BigInteger fitted(BigInteger value, DataType type, boolean signed) {
    BigInteger size = BigInteger.ONE.shiftLeft(8 * type.bytes());
    BigInteger low = value.mod(size);
    return signed && low.testBit(8 * type.bytes() - 1) ? low.subtract(size) : low;
  }

  private static double rounded(DataType type, double value) {
    ByteBuffer buffer = ByteBuffer.allocate(8);
    ElementCodec codec = new ElementCodec(type);
    codec.putDouble(buffer, 0, value);
    return switch (type) {
      case FLOAT64 -> value;
      case FLOAT32 -> (float) value;
      case FLOAT16 -> number(FloatFormat.of(DataType.FLOAT16), buffer.getShort(0) & 0xffff, 0x8000);
      case BFLOAT16 ->
          number(FloatFormat.of(DataType.BFLOAT16), buffer.getShort(0) & 0xffff, 0x8000);
      case FLOAT8_E4M3 -> number(FloatFormat.of(DataType.FLOAT8_E4M3), buffer.get(0) & 0xff, 0x80);
      default -> number(FloatFormat.of(DataType.FLOAT8_E5M2), buffer.get(0) & 0xff, 0x80);
    };
  }

  private static double number(FloatFormat format, int bits, int sign) {
    double magnitude = format.magnitude(bits & (sign - 1));
    return (bits & sign) != 0 ? -magnitude : magnitude;
  }

  /** A generator that gave always the same would hide every misplaced chunk. */
  @ParameterizedTest
  @MethodSource("combinations")
  void valuesDiffer(DataType type, RedOp op, int nRanks) {
    Set<Object> seen = new HashSet<>();
    Combination combination =
        new Combination(type, op, nRanks, new TestValues(type, op, nRanks, 3));
    for (int index = 0; index < ELEMENTS; index++) {
      seen.add(
          type.isFloatingPoint()
              ? (Object) combination.floating(index)
              : combination.integer(index));
    }
    assertTrue(seen.size() >= 4, () -> type + " " + op + ": only " + seen);
  }
}
