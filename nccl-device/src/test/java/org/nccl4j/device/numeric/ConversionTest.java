package org.nccl4j.device.numeric;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.SplittableRandom;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.device.DataType;

/** Every number of each small type, and around every point where rounding changes its mind. */
class ConversionTest {
  private static final BinaryFormat SINGLE = BinaryFormat.of(DataType.FLOAT32);
  private static final BinaryFormat DOUBLE = BinaryFormat.of(DataType.FLOAT64);

  enum Small {
    FLOAT16(DataType.FLOAT16),
    BFLOAT16(DataType.BFLOAT16),
    E4M3(DataType.FLOAT8_E4M3),
    E5M2(DataType.FLOAT8_E5M2);

    final DataType type;
    final BinaryFormat format;

    Small(DataType type) {
      this.type = type;
      this.format = BinaryFormat.of(type);
    }

    int numbers() {
      return 1 << (8 * type.bytes());
    }

    float toFloat(int bits) {
      return switch (this) {
        case FLOAT16 -> Float16.toFloat((short) bits);
        case BFLOAT16 -> Bfloat16.toFloat((short) bits);
        case E4M3 -> Float8E4m3.toFloat((byte) bits);
        case E5M2 -> Float8E5m2.toFloat((byte) bits);
      };
    }

    double toDouble(int bits) {
      return FloatFormat.of(type).toDouble(bits);
    }

    int fromFloat(float x) {
      return switch (this) {
        case FLOAT16 -> Float16.fromFloat(x) & 0xffff;
        case BFLOAT16 -> Bfloat16.fromFloat(x) & 0xffff;
        case E4M3 -> Float8E4m3.fromFloat(x) & 0xff;
        case E5M2 -> Float8E5m2.fromFloat(x) & 0xff;
      };
    }

    int fromDouble(double x) {
      return (int) FloatFormat.of(type).fromDouble(x) & numbers() - 1;
    }
  }

  @ParameterizedTest
  @EnumSource
  void everyNumberWidensExactly(Small small) {
    for (int bits = 0; bits < small.numbers(); bits++) {
      String where = small + " " + Integer.toHexString(bits);
      float x = small.toFloat(bits);
      assertEquals(small.format.isNaN(bits), Float.isNaN(x), where);
      if (small.format.isNaN(bits)) {
        assertTrue(Double.isNaN(small.toDouble(bits)), where);
      } else if (small.format.isInfinite(bits)) {
        float infinity = small.format.isNegative(bits) ? -1 / 0f : 1 / 0f;
        assertEquals(infinity, x, where);
        assertEquals(infinity, small.toDouble(bits), where);
      } else {
        BinaryFormat.Exact exact = small.format.exact(bits);
        assertEquals((int) SINGLE.round(exact), Float.floatToRawIntBits(x), where);
        assertEquals(DOUBLE.round(exact), Double.doubleToRawLongBits(small.toDouble(bits)), where);
        assertEquals(bits, small.fromFloat(x), where);
        assertEquals(bits, small.fromDouble(small.toDouble(bits)), where);
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void narrowingRoundsToNearestEvenAroundEveryNumberAndMidpoint(Small small) {
    for (int bits = 0; bits < small.numbers() - 1; bits++) {
      double x = small.toDouble(bits);
      double next = small.toDouble(bits + 1);
      if (Double.isNaN(x) || Double.isNaN(next) || Double.isInfinite(x + next)) {
        continue;
      }
      double middle = (x + next) / 2;
      checkAround(small, x);
      checkAround(small, middle);
    }
  }

  @ParameterizedTest
  @EnumSource
  void narrowingAtTheEnds(Small small) {
    double greatest = 0;
    for (int bits = 0; bits < small.numbers() / 2; bits++) {
      if (!small.format.isNaN(bits) && !small.format.isInfinite(bits)) {
        greatest = small.toDouble(bits);
      }
    }
    for (double factor = 1; factor < 1.6; factor += 1.0 / 1024) {
      checkAround(small, greatest * factor);
      checkAround(small, -greatest * factor);
    }
    checkAround(small, Float.MAX_VALUE);
    checkAround(small, Double.MAX_VALUE);
    checkAround(small, Double.MIN_VALUE);
    checkAround(small, Float.MIN_VALUE);
    checkAround(small, Double.MIN_NORMAL);
    for (boolean negative : new boolean[] {false, true}) {
      double infinity = negative ? -1 / 0.0 : 1 / 0.0;
      assertEquals(small.format.overflow(negative), small.fromDouble(infinity));
      assertEquals(small.format.overflow(negative), small.fromFloat((float) infinity));
    }
    int canonical = small.type.bytes() == 1 ? 0x7f : 0x7fff;
    assertEquals(canonical, small.fromFloat(Float.NaN));
    assertEquals(canonical, small.fromFloat(Float.intBitsToFloat(0xff800001)));
    assertEquals(canonical, small.fromDouble(Double.NaN));
    assertEquals(canonical, small.fromDouble(Double.longBitsToDouble(0xfff0000000000001L)));
  }

  @ParameterizedTest
  @EnumSource
  void narrowingOfRandomBits(Small small) {
    SplittableRandom random = new SplittableRandom(0x5eed);
    for (int i = 0; i < 100_000; i++) {
      float x = Float.intBitsToFloat(random.nextInt());
      if (Float.isFinite(x)) {
        checkFloat(small, x);
      }
      double near = Math.scalb(random.nextDouble() * 2 - 1, random.nextInt(-160, 130));
      checkDouble(small, near);
    }
  }

  private static void checkAround(Small small, double x) {
    checkDouble(small, x);
    checkDouble(small, Math.nextUp(x));
    checkDouble(small, Math.nextDown(x));
    float narrow = (float) x;
    checkFloat(small, narrow);
    checkFloat(small, Math.nextUp(narrow));
    checkFloat(small, Math.nextDown(narrow));
  }

  private static void checkDouble(Small small, double x) {
    if (Double.isFinite(x)) {
      long expected = small.format.round(DOUBLE.exact(Double.doubleToRawLongBits(x)));
      assertEquals(expected, small.fromDouble(x), () -> small + " of " + Double.toHexString(x));
    }
  }

  private static void checkFloat(Small small, float x) {
    if (Float.isFinite(x)) {
      long expected = small.format.round(SINGLE.exact(Float.floatToRawIntBits(x)));
      assertEquals(expected, small.fromFloat(x), () -> small + " of " + Float.toHexString(x));
    }
  }
}
