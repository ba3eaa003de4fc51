package org.nccl4j.device.numeric;

import java.nio.ByteBuffer;
import org.nccl4j.device.DataType;

/** Writes one number as an element of a type. */
public final class ElementWriter {
  private ElementWriter() {}

  /** Writes a number, rounded to the type, at the beginning of a buffer. */
  public static void put(DataType type, ByteBuffer buffer, double value) {
    switch (type) {
      case INT8, UINT8 -> buffer.put(0, (byte) (long) value);
      case INT32, UINT32 -> buffer.putInt(0, (int) (long) value);
      case INT64, UINT64 -> buffer.putLong(0, (long) value);
      case FLOAT16 -> buffer.putShort(0, Float16.fromDouble(value));
      case FLOAT32 -> buffer.putFloat(0, (float) value);
      case FLOAT64 -> buffer.putDouble(0, value);
      case BFLOAT16 -> buffer.putShort(0, BFloat16.fromDouble(value));
      case FLOAT8_E4M3 -> buffer.put(0, Float8E4M3.fromDouble(value));
      case FLOAT8_E5M2 -> buffer.put(0, Float8E5M2.fromDouble(value));
    }
  }
}
