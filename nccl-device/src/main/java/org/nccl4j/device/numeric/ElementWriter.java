package org.nccl4j.device.numeric;

import java.nio.ByteBuffer;
import org.nccl4j.device.DataType;
import org.nccl4j.device.ReductionOperator;

/** Writes one number as an element of a type, and makes the operator of a scalar. */
public final class ElementWriter {
  private static final double TWO_TO_63 = 0x1p63;

  private ElementWriter() {}

  /** Writes the scalar of a pre-multiplied sum at the beginning of a buffer. */
  public static void put(ByteBuffer buffer, ReductionOperator operator) {
    if (operator.type().isFloatingPoint()) {
      put(operator.type(), buffer, operator.value());
    } else {
      put(operator.type(), buffer, operator.whole());
    }
  }

  /** Writes a number, rounded to the type, at the beginning of a buffer. */
  public static void put(DataType type, ByteBuffer buffer, double value) {
    if (type.isFloatingPoint()) {
      putBits(type, buffer, FloatFormat.of(type).fromDouble(value));
    } else {
      put(type, buffer, whole(value));
    }
  }

  private static long whole(double value) {
    return value < TWO_TO_63 ? (long) value : (long) (value - TWO_TO_63) ^ Long.MIN_VALUE;
  }

  /** Writes the low bits of an integer as an element of an integer type; others are rounded. */
  public static void put(DataType type, ByteBuffer buffer, long value) {
    if (type.isFloatingPoint()) {
      put(type, buffer, (double) value);
    } else {
      putBits(type, buffer, value);
    }
  }

  private static void putBits(DataType type, ByteBuffer buffer, long bits) {
    switch (type.bytes()) {
      case 1 -> buffer.put(0, (byte) bits);
      case 2 -> buffer.putShort(0, (short) bits);
      case 4 -> buffer.putInt(0, (int) bits);
      default -> buffer.putLong(0, bits);
    }
  }

  /**
   * The pre-multiplied sum of a scalar.
   *
   * @param bits the scalar as an element of the type; higher bits are ignored
   */
  public static ReductionOperator preMulSum(DataType type, long bits) {
    return switch (type) {
      case INT8 -> ReductionOperator.preMulSum(type, (long) (byte) bits);
      case UINT8 -> ReductionOperator.preMulSum(type, bits & 0xff);
      case INT32 -> ReductionOperator.preMulSum(type, (long) (int) bits);
      case UINT32 -> ReductionOperator.preMulSum(type, bits & 0xffffffffL);
      case INT64, UINT64 -> ReductionOperator.preMulSum(type, bits);
      default -> ReductionOperator.preMulSum(type, FloatFormat.of(type).toDouble(bits));
    };
  }
}
