package org.nccl4j.device.numeric;

import java.nio.ByteBuffer;
import org.nccl4j.device.DataType;
import org.nccl4j.device.ReductionOperator;

/** Writes one number as an element of a type, and reads it. */
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
    switch (type) {
      case FLOAT16 -> buffer.putShort(0, Float16.fromDouble(value));
      case FLOAT32 -> buffer.putFloat(0, (float) value);
      case FLOAT64 -> buffer.putDouble(0, value);
      case BFLOAT16 -> buffer.putShort(0, BFloat16.fromDouble(value));
      case FLOAT8_E4M3 -> buffer.put(0, Float8E4M3.fromDouble(value));
      case FLOAT8_E5M2 -> buffer.put(0, Float8E5M2.fromDouble(value));
      default -> put(type, buffer, whole(value));
    }
  }

  private static long whole(double value) {
    return value < TWO_TO_63 ? (long) value : (long) (value - TWO_TO_63) ^ Long.MIN_VALUE;
  }

  /** Writes the low bits of an integer as an element of an integer type; others are rounded. */
  public static void put(DataType type, ByteBuffer buffer, long value) {
    switch (type) {
      case INT8, UINT8 -> buffer.put(0, (byte) value);
      case INT32, UINT32 -> buffer.putInt(0, (int) value);
      case INT64, UINT64 -> buffer.putLong(0, value);
      default -> put(type, buffer, (double) value);
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
      case FLOAT16 -> ReductionOperator.preMulSum(type, Float16.toDouble((short) bits));
      case FLOAT32 -> ReductionOperator.preMulSum(type, (double) Float.intBitsToFloat((int) bits));
      case FLOAT64 -> ReductionOperator.preMulSum(type, Double.longBitsToDouble(bits));
      case BFLOAT16 -> ReductionOperator.preMulSum(type, BFloat16.toDouble((short) bits));
      case FLOAT8_E4M3 -> ReductionOperator.preMulSum(type, Float8E4M3.toDouble((byte) bits));
      case FLOAT8_E5M2 -> ReductionOperator.preMulSum(type, Float8E5M2.toDouble((byte) bits));
    };
  }
}
