package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.List;
import java.util.Random;
import java.util.function.Function;
import java.util.stream.IntStream;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.numeric.FloatFormat;
import org.nccl4j.operation.Operation;

/**
 * A quantised all-reduce or reduce-scatter, compared bit by bit with a plain computation of all
 * ranks' data, and within the stated error with their sum in float64. Every rank draws the data of
 * all ranks: blocks of each kind that has made trouble.
 *
 * @param count of the call
 */
record QuantisedCase(
    Operation operation, DataType type, DataType format, int block, RedOp op, int count) {
  private static final float LEAST = 0x1p-100f;
  private static final int KINDS = 10;
  private static final FloatFormat FP8 = FloatFormat.of(DataType.FLOAT8_E4M3);

  private FloatFormat elements() {
    return FloatFormat.of(type);
  }

  private float rounded(double x) {
    return (float) elements().toDouble(elements().fromDouble(x));
  }

  private double greatest() {
    return type == DataType.FLOAT16
        ? 65504
        : type == DataType.BFLOAT16 ? 0x1.fep127 : 0x1.fffffep127;
  }

  private double least() {
    return type == DataType.FLOAT16 ? 0x1p-24 : type == DataType.BFLOAT16 ? 0x1p-133 : 0x1p-149;
  }

  private int whole(int n) {
    return operation == Operation.ALL_REDUCE ? count : count * n;
  }

  /** Elements of a rank's part. */
  private int part(int n) {
    int blocks = (count + block - 1) / block;
    return operation == Operation.ALL_REDUCE ? (blocks + n - 1) / n * block : count;
  }

  /** The data of a rank; with adversarial false all are normally distributed. */
  float[] data(int rank, int n, long seed, boolean adversarial) {
    Random random = new Random(seed * 31 + rank);
    float[] data = new float[whole(n)];
    for (int i = 0; i < data.length; i++) {
      int kind = adversarial ? i / block % KINDS : 0;
      double x = random.nextGaussian();
      data[i] =
          rounded(
              switch (kind) {
                case 1 -> 0;
                case 2 -> i % block == 5 ? greatest() / 8 : x * 1e-3;
                case 3 -> least() * random.nextInt(9);
                case 4 -> i % block == 1 && rank == n - 1 ? Double.NaN : x;
                case 5 -> i % block == 2 && rank == 0 ? Double.NEGATIVE_INFINITY : x;
                case 6 -> -0.0;
                case 7 -> Math.copySign(greatest() * (1 - 0.1 * random.nextDouble()), x);
                case 8 -> Math.scalb(x, random.nextInt(24) - 12);
                case 9 -> type == DataType.FLOAT16 ? x : x * 0x1p-110;
                default -> x;
              });
    }
    return data;
  }

  /** A block of numbers, and the scale's dividend; NaN for a block without a scale. */
  private double quantise(float[] values, int first, int end) {
    float most = 0;
    for (int i = first; i < end; i++) {
      float magnitude = Math.abs(values[i]);
      most = Float.isFinite(magnitude) ? Math.max(most, magnitude) : Float.NaN;
    }
    float top = format == DataType.INT8 ? 127 : 448;
    float greatest = most == 0 ? top : Math.max(most, LEAST);
    float scale = greatest / top;
    if (Float.isInfinite(scale * top)) {
      scale = Math.nextDown(scale);
    }
    for (int i = first; i < end; i++) {
      float scaled = values[i] * (top / greatest);
      double code =
          format == DataType.INT8 ? Math.rint(scaled) + 0.0 : FP8.toDouble(FP8.fromDouble(scaled));
      values[i] = Float.isNaN(most) ? Float.NaN : (float) code * scale;
    }
    return greatest;
  }

  /** The most that a rounding to the format changes an element of a block. */
  private double error(double x, double greatest) {
    double error =
        format == DataType.INT8 ? greatest / 254 : Math.max(Math.abs(x) / 16, greatest / 458_000);
    return error * (1 + 0x1p-20);
  }

  /** Results of all elements, and the most that they may differ from the sum in float64. */
  record Expected(float[] values, double[] sums, double[] errors) {}

  Expected expected(float[][] data) {
    return expected(data, IntStream.range(0, data.length).mapToObj(List::of).toList());
  }

  /**
   * The same where ranks add their elements before they are quantised.
   *
   * @param together the ranks that do so, in their order: those of each host
   */
  Expected expected(float[][] data, List<List<Integer>> together) {
    int n = data.length;
    int whole = whole(n);
    Expected expected = new Expected(new float[whole], new double[whole], new double[whole]);
    for (int begin = 0; begin < whole; begin += part(n)) {
      int end = Math.min(whole, begin + part(n));
      for (int first = begin; first < end; first += block) {
        expect(data, together, expected, first, Math.min(end, first + block));
      }
    }
    return expected;
  }

  private void expect(
      float[][] data, List<List<Integer>> together, Expected expected, int first, int end) {
    int n = data.length;
    float[] sum = expected.values;
    int divisor = op == RedOp.AVG ? n : 1;
    for (int group = 0; group < together.size(); group++) {
      float[] values = new float[data[0].length];
      for (int i = first; i < end; i++) {
        for (int member = 0; member < together.get(group).size(); member++) {
          float own = data[together.get(group).get(member)][i];
          values[i] = member == 0 ? own : values[i] + own;
          expected.sums[i] += (double) own / divisor;
          // The roundings of sums in float32, of which each is a 2^24th.
          expected.errors[i] += n * Math.abs(own) * 0x1p-23 / divisor;
        }
      }
      float[] before = values.clone();
      double greatest = quantise(values, first, end);
      for (int i = first; i < end; i++) {
        sum[i] = group == 0 ? values[i] : sum[i] + values[i];
        expected.errors[i] += error(before[i], greatest) / divisor;
      }
    }
    for (int i = first; i < end; i++) {
      sum[i] = op == RedOp.AVG ? sum[i] / n : sum[i];
    }
    if (operation == Operation.ALL_REDUCE) {
      float[] before = sum.clone();
      double greatest = quantise(sum, first, end);
      for (int i = first; i < end; i++) {
        expected.errors[i] += error(before[i], greatest);
      }
    }
    for (int i = first; i < end; i++) {
      sum[i] = rounded(sum[i]);
      expected.errors[i] += Math.abs(sum[i]) * 0x1p-8 + least();
    }
  }

  /** Calls it with data of all kinds and compares. */
  void check(Communicator comm, DeviceStream stream, long seed) {
    check(comm, stream, seed, this::expected);
  }

  /** Calls it with data of all kinds and compares with what is expected of all ranks' data. */
  void check(
      Communicator comm, DeviceStream stream, long seed, Function<float[][], Expected> expected) {
    int n = comm.nRanks();
    float[][] data = new float[n][];
    for (int rank = 0; rank < n; rank++) {
      data[rank] = data(rank, n, seed, /* adversarial= */ true);
    }
    Communicator quantised =
        comm.withOptions(CallOptions.defaults().withQuantisation(format, block));
    try (DeviceMemory send = memory(comm, data[comm.rank()]);
        DeviceMemory recv = comm.device().allocate((long) count * type.bytes())) {
      recv.fill((byte) 0x5a);
      call(quantised, send, recv, stream);
      stream.synchronize();
      compare(comm, expected.apply(data), floats(recv));
      // In place, and by plans and memories that are there.
      int own = operation == Operation.ALL_REDUCE ? 0 : comm.rank() * count;
      DeviceMemory part = send.slice((long) own * type.bytes(), (long) count * type.bytes());
      call(quantised, send, part, stream);
      stream.synchronize();
      compare(comm, expected.apply(data), floats(part));
    }
  }

  void call(Communicator comm, DeviceMemory send, DeviceMemory recv, DeviceStream stream) {
    if (operation == Operation.ALL_REDUCE) {
      comm.allReduce(send, recv, count, type, op, stream);
    } else {
      comm.reduceScatter(send, recv, count, type, op, stream);
    }
  }

  void compare(Communicator comm, Expected expected, float[] got) {
    int begin = operation == Operation.ALL_REDUCE ? 0 : comm.rank() * count;
    for (int i = 0; i < got.length; i++) {
      int at = begin + i;
      String where = "%s: element %d on rank %d".formatted(this, i, comm.rank());
      assertEquals(Float.floatToIntBits(expected.values[at]), Float.floatToIntBits(got[i]), where);
      double sum = expected.sums[at];
      if (!Double.isFinite(sum)) {
        assertTrue(Float.isNaN(got[i]), where + " is " + got[i]);
      } else if (Float.isFinite(got[i])) {
        double error = Math.abs(got[i] - sum);
        assertTrue(
            error <= expected.errors[at],
            "%s is %s, the sum %s: more than %s"
                .formatted(where, got[i], sum, expected.errors[at]));
      }
    }
  }

  DeviceMemory memory(Communicator comm, float[] data) {
    ByteBuffer bytes =
        ByteBuffer.allocate(data.length * type.bytes()).order(ByteOrder.nativeOrder());
    for (float x : data) {
      long bits = elements().fromDouble(x);
      if (type.bytes() == Short.BYTES) {
        bytes.putShort((short) bits);
      } else {
        bytes.putInt((int) bits);
      }
    }
    DeviceMemory memory = comm.device().allocate(bytes.capacity());
    memory.write(0, bytes.flip());
    return memory;
  }

  float[] floats(DeviceMemory memory) {
    ByteBuffer bytes = ByteBuffer.allocate((int) memory.size()).order(ByteOrder.nativeOrder());
    memory.read(0, bytes);
    bytes.flip();
    float[] out = new float[(int) memory.size() / type.bytes()];
    for (int i = 0; i < out.length; i++) {
      long bits = type.bytes() == Short.BYTES ? bytes.getShort() : bytes.getInt();
      out[i] = (float) elements().toDouble(bits);
    }
    return out;
  }
}
