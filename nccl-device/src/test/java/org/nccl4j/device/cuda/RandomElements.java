package org.nccl4j.device.cuda;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.SplittableRandom;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.numeric.FloatFormat;

/**
 * Random data of each rank, and their combination computed one element at a time: integers
 * wrapping, floating-point numbers in double precision with a bound on what rounding may do.
 */
final class RandomElements {
  final DataType type;
  final RedOp op;
  final ByteBuffer[] inputs;
  private boolean roundedOnce;

  RandomElements(DataType type, RedOp op, int ranks, int count, long seed) {
    this.type = type;
    this.op = op;
    inputs = new ByteBuffer[ranks];
    for (int rank = 0; rank < ranks; rank++) {
      SplittableRandom random = new SplittableRandom(seed * 1000 + rank);
      ByteBuffer data =
          ByteBuffer.allocateDirect(count * type.bytes()).order(ByteOrder.nativeOrder());
      for (int i = 0; i < count; i++) {
        if (type.isFloatingPoint()) {
          put(data, op == RedOp.PROD ? 0.5 + random.nextDouble() : 4 * random.nextDouble() - 2);
        } else {
          putBits(data, random.nextLong());
        }
      }
      inputs[rank] = data.flip();
    }
  }

  /** Given data of each rank. */
  RandomElements(DataType type, RedOp op, ByteBuffer[] inputs) {
    this.type = type;
    this.op = op;
    this.inputs = inputs;
  }

  /** From now on, results have to be combined in float32 and rounded to the type once. */
  void expectOneRounding() {
    roundedOnce = true;
  }

  /** Why data are not the combination of all ranks' elements from a place on; null if they are. */
  String wrong(ByteBuffer data, int from) {
    data.order(ByteOrder.nativeOrder());
    int count = data.remaining() / type.bytes();
    for (int i = 0; i < count; i++) {
      if (type.isFloatingPoint()) {
        double got = get(data, i);
        double expected = combine(from + i);
        double bound = bound(from + i, expected);
        if (!(Math.abs(got - expected) <= bound)) {
          return "element %d is %s, expected %s +- %s".formatted(i, got, expected, bound);
        }
      } else if (getBits(data, i) != combineBits(from + i)) {
        return "element %d is %d, expected %d"
            .formatted(i, getBits(data, i), combineBits(from + i));
      }
    }
    return null;
  }

  /** Why data are not a rank's own; null if they are. */
  String wrongCopy(ByteBuffer data, int rank) {
    int at = inputs[rank].slice(0, data.remaining()).mismatch(data);
    return at < 0 ? null : "byte %d is not that of rank %d".formatted(at, rank);
  }

  private double combine(int place) {
    double result = get(inputs[0], place);
    for (int rank = 1; rank < inputs.length; rank++) {
      double next = get(inputs[rank], place);
      result =
          switch (op) {
            case SUM, AVG -> result + next;
            case PROD -> result * next;
            case MAX -> Math.max(result, next);
            case MIN -> Math.min(result, next);
          };
    }
    return op == RedOp.AVG ? result / inputs.length : result;
  }

  private double bound(int place, double expected) {
    if (op == RedOp.MAX || op == RedOp.MIN) {
      return 0;
    }
    double magnitude = Math.abs(expected);
    if (op != RedOp.PROD) {
      magnitude = 0;
      for (ByteBuffer input : inputs) {
        magnitude += Math.abs(get(input, place));
      }
    }
    int roundings = inputs.length + 1;
    if (roundedOnce && type.bytes() < Float.BYTES) {
      double least = type.bytes() == 1 ? 0x1p-9 : 0x1p-24;
      return unit(type) / 2 * Math.abs(expected)
          + least / 2
          + unit(DataType.FLOAT32) * roundings * magnitude;
    }
    return unit(type) * roundings * magnitude + 0x1p-9 * (type.bytes() == 1 ? 8 : 0);
  }

  /** The distance between 1 and the next number. */
  private static double unit(DataType type) {
    return switch (type) {
      case FLOAT64 -> 0x1p-52;
      case FLOAT32 -> 0x1p-23;
      case FLOAT16 -> 0x1p-10;
      case BFLOAT16 -> 0x1p-7;
      case FLOAT8_E4M3 -> 0x1p-3;
      default -> 0x1p-2;
    };
  }

  private long combineBits(int place) {
    long result = getBits(inputs[0], place);
    boolean unsigned = type == DataType.UINT8 || type == DataType.UINT32 || type == DataType.UINT64;
    for (int rank = 1; rank < inputs.length; rank++) {
      long next = getBits(inputs[rank], place);
      int order = unsigned ? Long.compareUnsigned(result, next) : Long.compare(result, next);
      result =
          switch (op) {
            case SUM, AVG -> narrow(result + next);
            case PROD -> narrow(result * next);
            case MAX -> order < 0 ? next : result;
            case MIN -> order < 0 ? result : next;
          };
    }
    if (op == RedOp.AVG) {
      return unsigned ? Long.divideUnsigned(result, inputs.length) : result / inputs.length;
    }
    return result;
  }

  private long narrow(long x) {
    return switch (type) {
      case INT8 -> (byte) x;
      case UINT8 -> x & 0xff;
      case INT32 -> (int) x;
      case UINT32 -> x & 0xffffffffL;
      default -> x;
    };
  }

  private void putBits(ByteBuffer out, long x) {
    switch (type.bytes()) {
      case 1 -> out.put((byte) x);
      case 2 -> out.putShort((short) x);
      case 4 -> out.putInt((int) x);
      default -> out.putLong(x);
    }
  }

  private long getBits(ByteBuffer in, int i) {
    return switch (type.bytes()) {
      case 1 -> narrow(in.get(i));
      case 2 -> in.getShort(2 * i);
      case 4 -> narrow(in.getInt(4 * i));
      default -> in.getLong(8 * i);
    };
  }

  private void put(ByteBuffer out, double x) {
    putBits(out, FloatFormat.of(type).fromDouble(x));
  }

  private double get(ByteBuffer in, int i) {
    return FloatFormat.of(type).toDouble(getBits(in, i));
  }
}
