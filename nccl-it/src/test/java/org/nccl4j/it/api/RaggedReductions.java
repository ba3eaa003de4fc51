package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.Random;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.RaggedConfig;
import org.nccl4j.api.RaggedExchange;
import org.nccl4j.device.CudaFunctor;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.it.perf.check.CheckResult;
import org.nccl4j.it.perf.check.DataSet;
import org.nccl4j.it.perf.workload.Segment;

/**
 * Reduce-scatters of a ragged exchange with random counts, some of them or all 0, compared with
 * what the host computes. Every rank draws the same counts.
 */
final class RaggedReductions {
  private static final int MOST = 300;
  private static final byte POISON = 0x5a;

  private RaggedReductions() {}

  /** The greatest numbers, by a function on the host device and on GPUs. */
  static ReductionOperator greatest(DataType type) {
    return ReductionOperator.function("greatest", type)
        .onCuda(
            CudaFunctor.ofSource(
                "Greatest",
                """
                struct Greatest {
                  __device__ %1$s operator()(%1$s a, %1$s b) const { return a < b ? b : a; }
                };
                """
                    .formatted(type == DataType.INT32 ? "int" : "double")))
        .onHost(
            (a, b, target, count, of) -> {
              for (int i = 0; i < count; i++) {
                if (of == DataType.INT32) {
                  target.putInt(4 * i, Math.max(a.getInt(4 * i), b.getInt(4 * i)));
                } else {
                  target.putDouble(8 * i, Math.max(a.getDouble(8 * i), b.getDouble(8 * i)));
                }
              }
            })
        .build();
  }

  /**
   * Makes calls on a rank, each sum followed by an all-gather of the parts.
   *
   * @param perElement numbers of an element
   */
  static void run(
      Communicator comm,
      DeviceStream stream,
      DataType type,
      int perElement,
      DataType countType,
      int calls,
      long seed) {
    int n = comm.nRanks();
    int bytes = perElement * type.bytes();
    RaggedConfig config = new RaggedConfig(bytes, MOST, (long) n * MOST, countType);
    try (RaggedExchange exchange = comm.createRaggedExchange(config);
        RaggedExchange back = comm.createRaggedExchange(config);
        DeviceMemory counts = comm.device().allocate((long) n * countType.bytes());
        DeviceMemory send = comm.device().allocate((long) n * MOST * bytes)) {
      Random random = new Random(seed);
      for (int call = 0; call < calls; call++) {
        long[] drawn = draw(n, random);
        RedOp op = RedOp.values()[random.nextInt(RedOp.values().length)];
        long all = Arrays.stream(drawn).sum();
        boolean own = op == RedOp.MAX && (type == DataType.INT32 || type == DataType.FLOAT64);
        DataSet data = new DataSet(type, op, n, (long) n * MOST * perElement, seed + call);
        data.fillSend(comm.rank(), send);
        counts.write(0, numbers(drawn, countType));
        exchange.received().fill(POISON);
        if (own) {
          exchange.reduceScatter(send.slice(0, all * bytes), counts, type, greatest(type), stream);
        } else {
          exchange.reduceScatter(send.slice(0, all * bytes), counts, type, op, stream);
        }
        back.allGather(exchange.received(), exchange.receivedCounts(), stream);
        stream.synchronize();
        String what =
            "rank %d, %s %s of %s".formatted(comm.rank(), type, op, Arrays.toString(drawn));
        int me = comm.rank();
        long mine = drawn[me];
        long before = Arrays.stream(drawn, 0, me).sum();
        same(
            data,
            new Segment(0, mine * perElement, Segment.COMBINED, before * perElement),
            exchange.received(),
            what);
        same(data, new Segment(0, all * perElement, Segment.COMBINED, 0), back.received(), what);
        long[] same = new long[n];
        Arrays.fill(same, mine);
        assertEquals(numbers(same, countType), read(exchange.receivedCounts()), what);
        long[] offsets = new long[n + 1];
        offsets[n] = mine;
        assertEquals(numbers(offsets, countType), read(exchange.receivedOffsets()), what);
        assertEquals(numbers(drawn, countType), read(counts), what);
        if (exchange.isReduceScatterCapturable()) {
          continue; // the other ranks' parts were there
        }
        ByteBuffer beyond = read(exchange.received()).position((int) mine * bytes);
        while (beyond.hasRemaining()) {
          assertEquals(POISON, beyond.get(), what + ", behind the sums");
        }
      }
    }
  }

  private static long[] draw(int n, Random random) {
    int kind = random.nextInt(4);
    long equal = random.nextInt(MOST + 1);
    return random
        .longs(n, 0, MOST + 1)
        .map(
            count ->
                switch (kind) {
                  case 0 -> equal;
                  case 1 -> 0;
                  case 2 -> count % 2 * count;
                  default -> count;
                })
        .toArray();
  }

  private static ByteBuffer numbers(long[] values, DataType type) {
    ByteBuffer to =
        ByteBuffer.allocate(values.length * type.bytes()).order(ByteOrder.nativeOrder());
    for (long value : values) {
      if (type == DataType.INT64) {
        to.putLong(value);
      } else {
        to.putInt((int) value);
      }
    }
    return to.flip();
  }

  private static ByteBuffer read(DeviceMemory memory) {
    ByteBuffer data = ByteBuffer.allocate((int) memory.size()).order(ByteOrder.nativeOrder());
    memory.read(0, data);
    return data.flip();
  }

  private static void same(DataSet data, Segment expected, DeviceMemory memory, String what) {
    if (expected.count() > 0) {
      CheckResult verdict = data.verify(expected, memory);
      assertEquals(0, verdict.wrong(), what + ": " + verdict.first());
    }
  }
}
