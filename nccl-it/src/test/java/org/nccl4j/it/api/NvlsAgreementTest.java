package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.numeric.Bfloat16;
import org.nccl4j.device.numeric.ElementWriter;
import org.nccl4j.device.numeric.Float16;
import org.nccl4j.operation.Operation;

/**
 * Random elements reduced by NVLS, by rings, by trees and directly: the results differ by no more
 * than the order of the roundings can make them, and not at all where nothing is rounded.
 */
@Timeout(600)
class NvlsAgreementTest {
  private static final int MOST = 4_000;

  /** On one machine. */
  @ParameterizedTest
  @ValueSource(ints = {2, 3, 5})
  void waysOfOneMachineAgree(int n) throws Exception {
    agree(List.of("NVLS", "Ring", "Tree", "OneShot", "TwoShot"), "a".repeat(n), 70 + n);
  }

  /** On several machines, each letter a rank's. */
  @ParameterizedTest
  @ValueSource(strings = {"aabb", "abcab"})
  void waysBetweenMachinesAgree(String hosts) throws Exception {
    agree(List.of("NVLSTree", "Ring", "Tree", "TwoShot"), hosts, 80 + hosts.length());
  }

  private static void agree(List<String> algorithms, String hosts, long seed) throws Exception {
    int n = hosts.length();
    Map<String, Ranks> ways = new LinkedHashMap<>();
    try {
      for (String algorithm : algorithms) {
        CommunicatorConfig config =
            CommunicatorConfig.defaults()
                .with("NCCL_ALGO", algorithm)
                .with("NCCL_NVLS_CHUNKSIZE", "4096");
        Ranks ranks = Ranks.onHosts(hosts, config);
        ways.put(algorithm, ranks);
        assertEquals(
            algorithm,
            ranks
                .communicators
                .get(0)
                .chosenAlgorithm(Operation.ALL_REDUCE, 1000, DataType.FLOAT32)
                .algorithm()
                .label());
      }
      Random random = new Random(seed);
      for (DataType type : DataType.values()) {
        for (RedOp op : RedOp.values()) {
          if (Nvls.has(Operation.ALL_REDUCE, type, op)) {
            compare(ways, n, type, op, 1 + random.nextInt(MOST), random.nextLong());
          }
        }
      }
    } finally {
      ways.values().forEach(Ranks::close);
    }
  }

  private static void compare(
      Map<String, Ranks> ways, int n, DataType type, RedOp op, int count, long seed)
      throws Exception {
    double[] magnitude = new double[count];
    ByteBuffer[] inputs = new ByteBuffer[n];
    for (int rank = 0; rank < n; rank++) {
      inputs[rank] = random(type, count, seed + rank);
      for (int i = 0; i < count; i++) {
        magnitude[i] += Math.abs(get(type, inputs[rank], i));
      }
    }
    ByteBuffer first = null;
    for (Map.Entry<String, Ranks> way : ways.entrySet()) {
      ByteBuffer result = reduce(way.getValue(), inputs, type, op, count);
      if (first == null) {
        first = result;
        continue;
      }
      for (int i = 0; i < count; i++) {
        double difference = Math.abs(get(type, first, i) - get(type, result, i));
        double most = type.isFloatingPoint() && sums(op) ? bound(type, n, magnitude[i]) : 0;
        int place = i;
        assertTrue(
            difference <= most,
            () ->
                "%s of %s by %s, element %d of %d, seed %d: differs by %g, at most %g"
                    .formatted(op, type, way.getKey(), place, count, seed, difference, most));
      }
    }
  }

  private static boolean sums(RedOp op) {
    return op == RedOp.SUM || op == RedOp.AVG;
  }

  /** Twice n roundings, of partial sums that are no larger than the sum of the magnitudes. */
  private static double bound(DataType type, int n, double magnitude) {
    double unit =
        switch (type) {
          case FLOAT64 -> 0x1p-53;
          case FLOAT32 -> 0x1p-24;
          case FLOAT16 -> 0x1p-11;
          case BFLOAT16 -> 0x1p-8;
          default -> throw new IllegalArgumentException(type.label());
        };
    double least = type == DataType.FLOAT16 ? 0x1p-25 : 0;
    return 2 * (n + 1) * (unit * magnitude * (1 + n * unit) + least);
  }

  /** The last rank's result; all ranks have the same bits. */
  private static ByteBuffer reduce(
      Ranks ranks, ByteBuffer[] inputs, DataType type, RedOp op, int count) throws Exception {
    ByteBuffer[] results = new ByteBuffer[inputs.length];
    ranks.run(
        (comm, stream) -> {
          ByteBuffer input = inputs[comm.rank()].duplicate();
          try (DeviceMemory data = Devices.host().allocate(input.capacity())) {
            data.write(0, input);
            comm.allReduce(data, data, count, type, op, stream);
            stream.synchronize();
            ByteBuffer result =
                ByteBuffer.allocate(input.capacity()).order(ByteOrder.nativeOrder());
            data.read(0, result);
            results[comm.rank()] = result.flip();
          }
        });
    for (ByteBuffer result : results) {
      assertEquals(0, results[0].compareTo(result), "all ranks have the same");
    }
    return results[0];
  }

  /** From -1 to 1, or whole numbers up to 999, so that means have something to round. */
  private static ByteBuffer random(DataType type, int count, long seed) {
    Random random = new Random(seed);
    ByteBuffer data = ByteBuffer.allocate(count * type.bytes()).order(ByteOrder.nativeOrder());
    for (int i = 0; i < count; i++) {
      double value = type.isFloatingPoint() ? 2 * random.nextDouble() - 1 : random.nextInt(1000);
      ByteBuffer element = data.slice(i * type.bytes(), type.bytes()).order(data.order());
      ElementWriter.put(type, element, value);
    }
    return data;
  }

  private static double get(DataType type, ByteBuffer data, int i) {
    int at = i * type.bytes();
    return switch (type) {
      case INT32, UINT32 -> data.getInt(at);
      case INT64, UINT64 -> data.getLong(at);
      case FLOAT32 -> data.getFloat(at);
      case FLOAT64 -> data.getDouble(at);
      case FLOAT16 -> Float16.toFloat(data.getShort(at));
      case BFLOAT16 -> Bfloat16.toFloat(data.getShort(at));
      default -> throw new IllegalArgumentException(type.label());
    };
  }
}
