package org.nccl4j.it.perf.check;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.nccl4j.device.DataType;

final class ElementCodecTest {
  static Stream<Arguments> formats() {
    return Stream.of(
        Arguments.of(new FloatFormat(10, 15), 0x7c00),
        Arguments.of(new FloatFormat(7, 127), 0x7f80),
        Arguments.of(new FloatFormat(3, 7), 0x7f),
        Arguments.of(new FloatFormat(2, 15), 0x7c));
  }

  @ParameterizedTest
  @CsvSource({
    "FLOAT16, 10, 15",
    "BFLOAT16, 7, 127",
    "FLOAT8_E4M3, 3, 7",
    "FLOAT8_E5M2, 2, 15",
  })
  void aFormatFollowsFromTheType(DataType type, int mantissaBits, int bias) {
    assertEquals(new FloatFormat(mantissaBits, bias), FloatFormat.of(type));
  }

  @ParameterizedTest
  @MethodSource("formats")
  void everyNumberComesBack(FloatFormat format, int end) {
    for (int bits = 0; bits < end; bits++) {
      assertEquals(bits, format.magnitudeBits(format.magnitude(bits)));
    }
  }

  @ParameterizedTest
  @MethodSource("formats")
  void roundingFindsTheNearest(FloatFormat format, int end) {
    Random random = new Random(1);
    for (int i = 0; i < 20_000; i++) {
      int low = random.nextInt(end - 1);
      double below = format.magnitude(low);
      double above = format.magnitude(low + 1);
      double value = below + (above - below) * random.nextInt(65) / 64;
      int nearest = value - below < above - value ? low : low + 1;
      boolean tie = value - below == above - value;
      int expected = tie ? low + (low & 1) : nearest;
      assertEquals(expected, format.magnitudeBits(value), () -> value + " in " + format);
    }
  }

  /** Known encodings, so that both directions cannot be wrong together. */
  @ParameterizedTest
  @CsvSource({
    "FLOAT16, 1, 3c00",
    "FLOAT16, -2, c000",
    "FLOAT16, 65504, 7bff",
    "FLOAT16, 5.9604644775390625e-8, 1",
    "BFLOAT16, 1, 3f80",
    "BFLOAT16, -0.5, bf00",
    "FLOAT8_E4M3, 1, 38",
    "FLOAT8_E4M3, 448, 7e",
    "FLOAT8_E5M2, 1, 3c",
    "FLOAT8_E5M2, -57344, fb",
    "FLOAT32, 1, 3f800000"
  })
  void knownEncodings(DataType type, double value, String hex) {
    ByteBuffer buffer = ByteBuffer.allocate(8);
    ElementCodec codec = new ElementCodec(type);
    codec.putDouble(buffer, 0, value);
    long mask = -1L >>> (64 - 8 * type.bytes());
    assertEquals(hex, Long.toHexString(codec.bits(buffer, 0) & mask));
  }

  @ParameterizedTest
  @CsvSource({"1, 1.125, 1", "-0.001953125, 0.001953125, 2", "1, -1, 112", "2, 2, 0"})
  void stepsBetweenNumbers(double one, double other, long steps) {
    ElementCodec codec = new ElementCodec(DataType.FLOAT8_E4M3);
    ByteBuffer buffer = ByteBuffer.allocate(2);
    codec.putDouble(buffer, 0, one);
    codec.putDouble(buffer, 1, other);
    assertEquals(steps, codec.steps(codec.bits(buffer, 0), codec.bits(buffer, 1)));
  }
}
