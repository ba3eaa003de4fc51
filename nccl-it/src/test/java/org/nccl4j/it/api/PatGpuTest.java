package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.it.perf.check.CheckResult;
import org.nccl4j.it.perf.check.DataSet;
import org.nccl4j.it.perf.workload.Segment;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/**
 * Parallel aggregated trees on GPUs. All ranks are in this process, each says that it is a host of
 * its own, and several share a GPU.
 */
@Tag("gpu")
@Tag("two-gpus")
@Timeout(600)
class PatGpuTest {
  private static final int MOST_BYTES = 2 << 20;
  private static final int GUARD = 256;
  private static final long SEED = Long.getLong("nccl4j.seed", 1);
  private static final CallOptions PAT = CallOptions.defaults().withAlgorithm("PAT");
  private static final CallOptions RING = CallOptions.defaults().withAlgorithm("Ring");

  private static final List<Device> GPUS = List.copyOf(Devices.cuda().list());

  private static Ranks gpus(int n, int channels) {
    CommunicatorConfig config =
        CommunicatorConfig.defaults()
            .withOperationTimeout(Duration.ofSeconds(20))
            .with("NCCL_NCHANNELS_PER_NET_PEER", Integer.toString(channels));
    Ranks ranks = Ranks.onHosts("abcdefghij".substring(0, n), GPUS, config);
    Communicator first = ranks.communicators.get(0).withOptions(PAT);
    for (Operation operation : List.of(Operation.ALL_GATHER, Operation.REDUCE_SCATTER)) {
      Algorithm chosen = first.chosenAlgorithm(operation, 1000, DataType.FLOAT32).algorithm();
      assertEquals(Algorithm.PAT, chosen, operation.key());
    }
    return ranks;
  }

  /** All types and operators, by PAT and now and then by ring, in place by chance. */
  @ParameterizedTest
  @CsvSource({"2, 2", "3, 1", "3, 4", "4, 2", "5, 3", "6, 1", "7, 2", "8, 2"})
  void everyTypeAndOperator(int n, int channels) throws Exception {
    System.out.println("seed " + SEED);
    try (Ranks ranks = gpus(n, channels)) {
      ranks.run(
          (comm, stream) -> {
            Random random = new Random(SEED + 31L * n + channels);
            try (DeviceMemory a = comm.device().allocate(MOST_BYTES);
                DeviceMemory b = comm.device().allocate(MOST_BYTES)) {
              for (DataType type : DataType.values()) {
                for (RedOp op : RedOp.values()) {
                  for (int bound : new int[] {40, 5000, most(type, n)}) {
                    Call.random(random, false, type, op, bound).check(comm, a, b, stream);
                  }
                }
                for (int bound : new int[] {40, 5000, most(type, n)}) {
                  Call.random(random, true, type, RedOp.SUM, bound).check(comm, a, b, stream);
                }
              }
            }
          });
    }
  }

  /** Elements of a rank's part, so that all parts and the guards have room in a buffer. */
  private static int most(DataType type, int n) {
    return (MOST_BYTES - 2 * GUARD) / type.bytes() / n;
  }

  /**
   * An all-gather, or a reduce-scatter.
   *
   * @param count elements of a rank's part
   * @param offset bytes from the begin of the buffers, for a multiple of the element
   */
  private record Call(
      boolean gathers,
      DataType type,
      RedOp op,
      int count,
      int offset,
      boolean inPlace,
      boolean byRing,
      long seed) {
    static Call random(Random random, boolean gathers, DataType type, RedOp op, int bound) {
      int offset = random.nextInt(GUARD / type.bytes()) * type.bytes();
      return new Call(
          gathers,
          type,
          op,
          1 + random.nextInt(bound),
          random.nextBoolean() ? 0 : offset,
          random.nextInt(3) == 0,
          random.nextInt(4) == 0,
          random.nextLong());
    }

    void check(Communicator all, DeviceMemory a, DeviceMemory b, DeviceStream stream) {
      Communicator comm = all.withOptions(byRing ? RING : PAT);
      int n = comm.nRanks();
      long part = (long) count * type.bytes();
      DeviceMemory whole = (gathers ? b : a).slice(offset, n * part);
      DeviceMemory own =
          inPlace ? whole.slice(comm.rank() * part, part) : (gathers ? a : b).slice(offset, part);
      DataSet data = new DataSet(type, op, n, gathers ? count : (long) n * count, seed);
      DataSet.poison(a);
      DataSet.poison(b);
      data.fillSend(comm.rank(), gathers ? own : whole);
      if (gathers) {
        comm.allGather(own, whole, count, type, stream);
      } else {
        comm.reduceScatter(whole, own, count, type, op, stream);
      }
      stream.synchronize();
      CheckResult verdict = CheckResult.RIGHT;
      if (gathers) {
        for (int source = 0; source < n; source++) {
          long at = (long) source * count;
          verdict = verdict.and(data.verify(new Segment(at, count, source, 0), whole));
        }
      } else {
        long from = (long) comm.rank() * count;
        verdict = data.verify(new Segment(0, count, Segment.COMBINED, from), own);
      }
      assertEquals("", verdict.first(), () -> this + " on rank " + comm.rank());
      DeviceMemory written = !gathers && inPlace ? a : b;
      assertGuards(written, gathers || inPlace ? n * part : part);
    }

    /** Bytes before and behind what the call may write are as they were. */
    private void assertGuards(DeviceMemory buffer, long written) {
      int behind = (int) Math.min(GUARD, buffer.size() - offset - written);
      long damage = DataSet.damage(buffer.slice(offset + written, behind));
      if (offset > 0) {
        damage += DataSet.damage(buffer.slice(0, offset));
      }
      assertEquals(0, damage, () -> "bytes around the result of " + this);
    }
  }

  /** Calls that follow each other without a wait, by PAT and by other algorithms. */
  @ParameterizedTest
  @ValueSource(ints = {2, 3, 4, 8})
  void manyCallsInARow(int n) throws Exception {
    System.out.println("seed " + SEED);
    int calls = 40;
    int most = 9001;
    String[] ways = {"PAT", "PAT", "Ring", "PAT", "OneShot"};
    try (Ranks ranks = gpus(n, 2)) {
      ranks.run(
          (comm, stream) -> {
            Random random = new Random(SEED + n);
            int[] counts = IntStream.range(0, calls).map(i -> 1 + random.nextInt(most)).toArray();
            try (DeviceMemory in = comm.device().allocate(4L * calls * most * n);
                DeviceMemory out = comm.device().allocate(4L * calls * most * n)) {
              in.write(0, ints(calls * most * n, comm.rank()));
              out.fill((byte) 0x77);
              for (int i = 0; i < calls; i++) {
                long at = 4L * i * most * n;
                long part = 4L * counts[i];
                Communicator by =
                    comm.withOptions(CallOptions.defaults().withAlgorithm(ways[i % ways.length]));
                if (i % 2 == 0) {
                  by.reduceScatter(
                      in.slice(at, n * part),
                      out.slice(at, part),
                      counts[i],
                      DataType.INT32,
                      RedOp.SUM,
                      stream);
                } else {
                  by.allGather(
                      in.slice(at, part),
                      out.slice(at, n * part),
                      counts[i],
                      DataType.INT32,
                      stream);
                }
              }
              stream.synchronize();
              for (int i = 0; i < calls; i++) {
                int parts = i % 2 == 0 ? 1 : n;
                int[] found = new int[parts * counts[i]];
                ByteBuffer bytes =
                    ByteBuffer.allocate(4 * found.length).order(ByteOrder.nativeOrder());
                out.read(4L * i * most * n, bytes);
                bytes.flip().asIntBuffer().get(found);
                int begin = i * most * n;
                int[] expected = new int[found.length];
                for (int j = 0; j < found.length; j++) {
                  int element = begin + (parts == 1 ? comm.rank() * counts[i] + j : j % counts[i]);
                  for (int rank = 0; rank < n; rank++) {
                    boolean counts4 = parts == 1 || rank == j / counts[i];
                    expected[j] += counts4 ? value(rank, element) : 0;
                  }
                }
                assertArrayEquals(expected, found, "call " + i + " on rank " + comm.rank());
              }
            }
          });
    }
  }

  private static int value(int rank, int element) {
    return (element * 31 + rank * 7919) * 1_000_003;
  }

  private static ByteBuffer ints(int count, int rank) {
    ByteBuffer data = ByteBuffer.allocate(4 * count).order(ByteOrder.nativeOrder());
    for (int i = 0; i < count; i++) {
      data.putInt(value(rank, i));
    }
    return data.flip();
  }

  /** Sums of numbers that are far apart: the order of adding is that of the host's kernel. */
  @ParameterizedTest
  @ValueSource(ints = {2, 3, 5, 8})
  void theHostsBits(int n) throws Exception {
    System.out.println("seed " + SEED);
    List<DataType> types = List.of(DataType.FLOAT32, DataType.FLOAT64, DataType.BFLOAT16);
    int count = 70_001;
    List<byte[]> expected;
    List<byte[]> found;
    try (Ranks ranks =
        Ranks.onHosts(
            "abcdefghij".substring(0, n), List.of(Devices.host()), CommunicatorConfig.defaults())) {
      expected = sums(ranks, types, count);
    }
    try (Ranks ranks = gpus(n, 2)) {
      found = sums(ranks, types, count);
    }
    for (int i = 0; i < expected.size(); i++) {
      assertArrayEquals(expected.get(i), found.get(i), "result " + i + " of all ranks and types");
    }
  }

  /**
   * The results of each rank: for each type a sum, a sum of products, and a mean where its
   * quotients are exact, since the host divides and GPUs multiply.
   */
  private static List<byte[]> sums(Ranks ranks, List<DataType> types, int count) throws Exception {
    int n = ranks.communicators.size();
    List<List<byte[]>> results = new ArrayList<>();
    for (int rank = 0; rank < n; rank++) {
      results.add(new ArrayList<>());
    }
    ranks.run(
        (all, stream) -> {
          Communicator comm = all.withOptions(PAT);
          for (DataType type : types) {
            long part = (long) count * type.bytes();
            try (DeviceMemory in = comm.device().allocate(n * part);
                DeviceMemory out = comm.device().allocate(part)) {
              in.write(0, numbers(type, comm.rank(), n * count));
              var third = ReductionOperator.preMulSum(type, 1.0 / 3);
              for (int which = 0; which < (Integer.bitCount(n) == 1 ? 3 : 2); which++) {
                out.fill((byte) 0x77);
                switch (which) {
                  case 0 -> comm.reduceScatter(in, out, count, type, RedOp.SUM, stream);
                  case 1 -> comm.reduceScatter(in, out, count, type, third, stream);
                  default -> comm.reduceScatter(in, out, count, type, RedOp.AVG, stream);
                }
                stream.synchronize();
                byte[] bytes = new byte[(int) part];
                out.read(0, ByteBuffer.wrap(bytes));
                results.get(comm.rank()).add(bytes);
              }
            }
          }
        });
    return results.stream().flatMap(List::stream).toList();
  }

  private static ByteBuffer numbers(DataType type, int rank, int elements) {
    Random random = new Random(SEED + 31L * rank + type.ordinal());
    ByteBuffer data = ByteBuffer.allocate(elements * type.bytes()).order(ByteOrder.nativeOrder());
    while (data.hasRemaining()) {
      double value = random.nextGaussian() * Math.pow(2, random.nextInt(20) - 10);
      switch (type) {
        case FLOAT64 -> data.putDouble(value);
        case FLOAT32 -> data.putFloat((float) value);
        default -> data.putShort((short) (Float.floatToIntBits((float) value) >>> 16));
      }
    }
    return data.flip();
  }

  /** A rank that waits for one that never comes reports it at its deadline. */
  @Test
  void aMissingRankIsNamed() throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().withOperationTimeout(Duration.ofSeconds(3));
    int missing = 2;
    try (Ranks ranks = Ranks.onHosts("abcd", GPUS, config)) {
      List<FutureTask<Void>> done =
          ranks.start(
              (comm, stream) -> {
                if (comm.rank() != missing) {
                  try (DeviceMemory data = comm.device().allocate(400_000)) {
                    comm.withOptions(PAT)
                        .allGather(
                            data.slice(100_000L * comm.rank(), 100_000),
                            data,
                            25_000,
                            DataType.FLOAT32,
                            stream);
                    stream.synchronize();
                  }
                }
              });
      for (int rank = 0; rank < 4; rank++) {
        if (rank != missing) {
          FutureTask<Void> task = done.get(rank);
          String error =
              assertThrows(ExecutionException.class, () -> task.get(300, TimeUnit.SECONDS))
                  .getCause()
                  .getMessage();
          System.out.println("rank " + rank + ": " + error);
          assertTrue(error.contains("rank "), rank + ": " + error);
        }
      }
    }
  }
}
