package org.nccl4j.it.perf.check;

import java.nio.ByteBuffer;
import org.nccl4j.device.DataType;

/** Writes and reads one element of a type. Buffers are in native order; positions are bytes. */
final class ElementCodec {
  private final DataType type;
  private final FloatFormat small;

  ElementCodec(DataType type) {
    this.type = type;
    boolean isSmall = type.isFloatingPoint() && type.bytes() <= Short.BYTES;
    this.small = isSmall ? FloatFormat.of(type) : null;
  }

  /** Writes a floating-point element, rounded to the type. */
  void putDouble(ByteBuffer buffer, int position, double value) {
    switch (type) {
      case FLOAT64 -> buffer.putDouble(position, value);
      case FLOAT32 -> buffer.putFloat(position, (float) value);
      default -> putBits(buffer, position, smallBits(value));
    }
  }

  /** Writes the low bits of an integer element. */
  void putLong(ByteBuffer buffer, int position, long value) {
    putBits(buffer, position, value);
  }

  private int smallBits(double value) {
    int sign = value < 0 ? 1 << (8 * type.bytes() - 1) : 0;
    return sign | small.magnitudeBits(Math.abs(value));
  }

  private void putBits(ByteBuffer buffer, int position, long bits) {
    switch (type.bytes()) {
      case 1 -> buffer.put(position, (byte) bits);
      case 2 -> buffer.putShort(position, (short) bits);
      case 4 -> buffer.putInt(position, (int) bits);
      default -> buffer.putLong(position, bits);
    }
  }

  /** The bits of an element, sign-extended. */
  long bits(ByteBuffer buffer, int position) {
    return switch (type.bytes()) {
      case 1 -> buffer.get(position);
      case 2 -> buffer.getShort(position);
      case 4 -> buffer.getInt(position);
      default -> buffer.getLong(position);
    };
  }

  /** An element as a person reads it. */
  String text(ByteBuffer buffer, int position) {
    long bits = bits(buffer, position);
    return switch (type) {
      case FLOAT64 -> Double.toString(Double.longBitsToDouble(bits));
      case FLOAT32 -> Float.toString(Float.intBitsToFloat((int) bits));
      case INT8, INT32, INT64 -> Long.toString(bits);
      case UINT8 -> Long.toString(bits & 0xff);
      case UINT32 -> Long.toString(bits & 0xffffffffL);
      case UINT64 -> Long.toUnsignedString(bits);
      default -> smallText(bits);
    };
  }

  private String smallText(long bits) {
    int width = 8 * type.bytes();
    double magnitude = small.magnitude((int) bits & ((1 << (width - 1)) - 1));
    return (bits < 0 ? "-" : "")
        + magnitude
        + " (0x"
        + Long.toHexString(bits & ((1L << width) - 1))
        + ")";
  }

  /** Returns the number of floating-point values between two elements, given by their bits. */
  long steps(long oneBits, long otherBits) {
    long difference = ordered(oneBits) - ordered(otherBits);
    return difference == Long.MIN_VALUE ? Long.MAX_VALUE : Math.abs(difference);
  }

  private long ordered(long bits) {
    long sign = -1L << (8 * type.bytes() - 1);
    return bits < 0 ? -(bits & ~sign) : bits;
  }
}
