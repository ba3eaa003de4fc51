package org.nccl4j.device.numeric;

import java.util.Arrays;
import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import org.nccl4j.device.DataType;

/**
 * The conversions of a floating-point type's elements. Those of types that Java lacks are found by
 * the type's name, in the constant FORMAT of its class: {@code Float8E4m3} for {@code FLOAT8_E4M3}.
 */
public interface FloatFormat {
  /**
   * The number, exactly.
   *
   * @param bits an element; bits above the type's are ignored
   */
  double toDouble(long bits);

  /**
   * The bits of the nearest number, ties to even. Past the greatest number the result is what the
   * type has there: infinity, or the greatest number.
   */
  long fromDouble(double x);

  /**
   * The conversions of a type.
   *
   * @throws IllegalArgumentException for integer types
   */
  static FloatFormat of(DataType type) {
    FloatFormat format = Formats.ALL.get(type);
    if (format == null) {
      throw new IllegalArgumentException(type.label() + " is an integer type");
    }
    return format;
  }

  /** All types' conversions. */
  final class Formats {
    private static final Map<DataType, FloatFormat> ALL = new EnumMap<>(DataType.class);

    static {
      for (DataType type : DataType.values()) {
        if (type.isFloatingPoint()) {
          ALL.put(type, find(type));
        }
      }
    }

    private Formats() {}

    private static FloatFormat find(DataType type) {
      return switch (type) {
        case FLOAT32 -> new Binary32();
        case FLOAT64 -> new Binary64();
        default -> ofClass(type);
      };
    }

    private static FloatFormat ofClass(DataType type) {
      String name =
          Arrays.stream(type.name().split("_"))
              .map(word -> word.charAt(0) + word.substring(1).toLowerCase(Locale.ROOT))
              .collect(Collectors.joining());
      try {
        Class<?> found = Class.forName(FloatFormat.class.getPackageName() + "." + name);
        return (FloatFormat) found.getField("FORMAT").get(null);
      } catch (ReflectiveOperationException e) {
        throw new LinkageError("no class %s with the conversions of %s".formatted(name, type), e);
      }
    }

    private record Binary32() implements FloatFormat {
      @Override
      public double toDouble(long bits) {
        return Float.intBitsToFloat((int) bits);
      }

      @Override
      public long fromDouble(double x) {
        return Float.floatToRawIntBits((float) x);
      }
    }

    private record Binary64() implements FloatFormat {
      @Override
      public double toDouble(long bits) {
        return Double.longBitsToDouble(bits);
      }

      @Override
      public long fromDouble(double x) {
        return Double.doubleToRawLongBits(x);
      }
    }
  }
}
