package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.operation.Operation;

/** Quantised all-reduces and reduce-scatters on the host device. */
@Timeout(600)
class QuantisedSumsTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);

  /**
   * Every type, format, block, operator and operation; counts that fill blocks and parts or not.
   */
  static List<QuantisedCase> cases() {
    List<QuantisedCase> cases = new ArrayList<>();
    int[] counts = {1, 31, 128, 1000, 4099};
    for (DataType type : new DataType[] {DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16}) {
      for (DataType format : new DataType[] {DataType.FLOAT8_E4M3, DataType.INT8}) {
        for (int block : new int[] {32, 128}) {
          for (RedOp op : new RedOp[] {RedOp.SUM, RedOp.AVG}) {
            for (Operation what :
                new Operation[] {Operation.ALL_REDUCE, Operation.REDUCE_SCATTER}) {
              cases.add(
                  new QuantisedCase(
                      what, type, format, block, op, counts[cases.size() % counts.length]));
            }
          }
        }
      }
    }
    return cases;
  }

  static void checkAll(Communicator comm, DeviceStream stream, long seed) {
    for (QuantisedCase each : cases()) {
      each.check(comm, stream, seed);
    }
  }

  private static void checkAll(Ranks ranks) throws Exception {
    System.out.println("seed " + SEED);
    ranks.run((comm, stream) -> checkAll(comm, stream, SEED));
  }

  @Test
  void threeRanks() throws Exception {
    try (Ranks ranks = new Ranks(3)) {
      checkAll(ranks);
    }
  }

  @Test
  void aSingleRank() throws Exception {
    try (Ranks ranks = new Ranks(1)) {
      checkAll(ranks);
    }
  }

  @Test
  void ranksOfSeveralHosts() throws Exception {
    try (Ranks ranks = Ranks.onHosts("aab", CommunicatorConfig.defaults())) {
      checkAll(ranks);
    }
  }

  @Test
  void ranksInProcesses() throws Exception {
    HostProcesses.run("aa", Device.Kind.HOST, QuantisedRank.class, SEED);
  }

  /** All algorithms only move the codes, so they give the same bits. */
  @Test
  void algorithmsGiveTheSameBits() throws Exception {
    for (String algorithm : new String[] {"Ring", "OneShot"}) {
      CommunicatorConfig config = CommunicatorConfig.defaults().with("NCCL_ALGO", algorithm);
      try (Ranks ranks = new Ranks(4, config)) {
        ranks.run((comm, stream) -> sample(8192).check(comm, stream, SEED));
      }
    }
  }

  private static QuantisedCase sample(int count) {
    return new QuantisedCase(
        Operation.ALL_REDUCE, DataType.BFLOAT16, DataType.FLOAT8_E4M3, 128, RedOp.SUM, count);
  }

  /** A program may make the view for each call. */
  @Test
  void viewsWithTheSameOptionsShareMemory() throws Exception {
    QuantisedCase sum = sample(5000);
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            sum.check(comm, stream, SEED);
            Map<String, Long> held = comm.memory();
            assertTrue(held.get("quantised sums") > 0, held.toString());
            sum.check(comm, stream, SEED);
            assertEquals(held, comm.memory());
          });
    }
  }

  /**
   * Views of all formats, half of them with errors of their own, whose calls are in several streams
   * by turns: the memory of parts is that of the largest call alone.
   */
  @Test
  void allViewsShareMemory() throws Exception {
    int views = 10;
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            List<QuantisedCase> cases = new ArrayList<>();
            List<float[][]> data = new ArrayList<>();
            List<Communicator> made = new ArrayList<>();
            List<DeviceMemory> memories = new ArrayList<>();
            List<DeviceMemory> errors = new ArrayList<>();
            List<DeviceStream> streams = new ArrayList<>();
            for (int v = 0; v < views; v++) {
              QuantisedCase each = each(v, 40_000 - 3000 * v);
              cases.add(each);
              boolean zeros = v % 2 == 0; // -0 and an error of 0 are 0
              data.add(
                  new float[][] {
                    each.data(0, 2, SEED + v, zeros), each.data(1, 2, SEED + v, zeros)
                  });
              memories.add(each.memory(comm, data.get(v)[comm.rank()]));
              streams.add(comm.device().createStream());
              CallOptions options =
                  CallOptions.defaults().withQuantisation(each.format(), each.block());
              if (v % 2 == 1) {
                errors.add(Ranks.floats(each.count(), i -> 0));
                options = options.withErrorFeedback(errors.get(v / 2));
              }
              made.add(comm.withOptions(v == 4 ? options.withProtocol("Simple") : options));
            }
            Map<String, Long> held = null;
            for (int v = 0; v < views; v++) {
              cases.get(v).call(made.get(v), memories.get(v), memories.get(v), streams.get(v));
              held = held == null ? comm.memory() : held;
            }
            streams.forEach(DeviceStream::synchronize);
            assertEquals(held, comm.memory());
            for (int v = 0; v < views; v++) {
              QuantisedCase each = cases.get(v);
              each.compare(comm, each.expected(data.get(v)), each.floats(memories.get(v)));
            }
            memories.forEach(DeviceMemory::close);
            errors.forEach(DeviceMemory::close);
            streams.forEach(DeviceStream::close);
            refused("the residual is closed", () -> again(cases.get(1), made.get(1), stream));
            again(cases.get(0), made.get(0), stream);
            assertEquals(held, comm.memory());
          });
    }
  }

  private static QuantisedCase each(int view, int count) {
    DataType format = view / 2 % 2 == 0 ? DataType.INT8 : DataType.FLOAT8_E4M3;
    return new QuantisedCase(
        Operation.ALL_REDUCE,
        DataType.BFLOAT16,
        format,
        view % 3 == 0 ? 32 : 128,
        RedOp.SUM,
        count);
  }

  private static void again(QuantisedCase each, Communicator view, DeviceStream stream) {
    try (DeviceMemory data = each.memory(view, new float[each.count()])) {
      each.call(view, data, data, stream);
      stream.synchronize();
    }
  }

  /** One thread drives all ranks; a plain operation and a second quantised one are in the group. */
  @Test
  void inGroups() throws Exception {
    QuantisedCase large = sample(5000);
    QuantisedCase small = sample(100);
    try (Ranks ranks = new Ranks(2)) {
      float[][] data = new float[2][];
      float[][] few = new float[2][];
      List<Communicator> views = new ArrayList<>();
      List<DeviceMemory> memories = new ArrayList<>();
      for (int rank = 0; rank < 2; rank++) {
        Communicator comm = ranks.communicators.get(rank);
        views.add(comm.withOptions(CallOptions.defaults().withQuantisation(large.format(), 128)));
        data[rank] = large.data(rank, 2, SEED, true);
        few[rank] = small.data(rank, 2, SEED, true);
        memories.add(large.memory(comm, data[rank]));
        memories.add(small.memory(comm, few[rank]));
        memories.add(Ranks.floats(10, i -> 1));
      }
      for (int round = 0; round < 2; round++) {
        for (int rank = 0; rank < 2; rank++) {
          memories.get(3 * rank).close();
          memories.get(3 * rank + 1).close();
          memories.set(3 * rank, large.memory(views.get(rank), data[rank]));
          memories.set(3 * rank + 1, small.memory(views.get(rank), few[rank]));
        }
        Group.run(
            () -> {
              for (int rank = 0; rank < 2; rank++) {
                DeviceStream stream = ranks.streams.get(rank);
                List<DeviceMemory> own = memories.subList(3 * rank, 3 * rank + 3);
                large.call(views.get(rank), own.get(0), own.get(0), stream);
                views.get(rank).broadcast(own.get(2), own.get(2), 10, DataType.FLOAT32, 0, stream);
                small.call(views.get(rank), own.get(1), own.get(1), stream);
              }
            });
        for (int rank = 0; rank < 2; rank++) {
          ranks.streams.get(rank).synchronize();
          Communicator comm = views.get(rank);
          large.compare(comm, large.expected(data), large.floats(memories.get(3 * rank)));
          small.compare(comm, small.expected(few), small.floats(memories.get(3 * rank + 1)));
        }
      }
      memories.forEach(DeviceMemory::close);
    }
  }

  @Test
  void withCallsCompared() throws Exception {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().with("NCCL_CHECK_MODE", "DEBUG_GLOBAL");
    try (Ranks ranks = new Ranks(2, config)) {
      ranks.run((comm, stream) -> sample(1000).check(comm, stream, SEED));
    }
  }

  /** Memory of parts that is known to the communicator, and plans that a suspension ends. */
  @Test
  void aViewOutlastsASuspension() throws Exception {
    QuantisedCase each = sample(5000);
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            Communicator view =
                comm.withOptions(CallOptions.defaults().withQuantisation(each.format(), 128));
            assertFalse(comm.memory().containsKey("quantised sums"));
            float[][] data = {each.data(0, 2, SEED, true), each.data(1, 2, SEED, true)};
            for (int round = 0; round < 2; round++) {
              try (DeviceMemory memory = each.memory(comm, data[comm.rank()])) {
                each.call(view, memory, memory, stream);
                stream.synchronize();
                each.compare(comm, each.expected(data), each.floats(memory));
              }
              // Two memories of two parts, each 20 blocks of 128 codes and a scale, and its kind.
              assertEquals(2 * 2 * (20 * 132 + 18 * 16), comm.memory().get("quantised sums"));
              comm.suspend();
              assertEquals(Map.of(), comm.memory());
              comm.resume();
            }
          });
    }
  }

  /** Calls in two streams share the memory of parts; the communicator orders them. */
  @Test
  void inTwoStreams() throws Exception {
    QuantisedCase one = sample(3000);
    QuantisedCase two = sample(40_000);
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            Communicator view =
                comm.withOptions(CallOptions.defaults().withQuantisation(one.format(), 128));
            float[][] first = {one.data(0, 2, SEED, true), one.data(1, 2, SEED, true)};
            float[][] second = {two.data(0, 2, SEED, true), two.data(1, 2, SEED, true)};
            try (DeviceStream other = comm.device().createStream();
                DeviceMemory a = one.memory(comm, first[comm.rank()]);
                DeviceMemory b = two.memory(comm, second[comm.rank()])) {
              one.call(view, a, a, stream);
              two.call(view, b, b, other);
              other.synchronize();
              stream.synchronize();
              one.compare(comm, one.expected(first), one.floats(a));
              two.compare(comm, two.expected(second), two.floats(b));
            }
          });
    }
  }

  /** The errors that the guide states, of normally distributed data of four ranks. */
  @Test
  void theErrorOfTheMeanIsAsStated() throws Exception {
    try (Ranks ranks = new Ranks(4)) {
      for (DataType type : new DataType[] {DataType.FLOAT32, DataType.FLOAT16, DataType.BFLOAT16}) {
        stated(ranks, type, DataType.FLOAT8_E4M3, 32, 0.036);
        stated(ranks, type, DataType.FLOAT8_E4M3, 128, 0.038);
        stated(ranks, type, DataType.INT8, 32, 0.008);
        stated(ranks, type, DataType.INT8, 128, 0.010);
      }
    }
  }

  private static void stated(Ranks ranks, DataType type, DataType format, int block, double most)
      throws Exception {
    QuantisedCase mean =
        new QuantisedCase(Operation.ALL_REDUCE, type, format, block, RedOp.AVG, 32_768);
    float[][] data = new float[4][];
    for (int rank = 0; rank < 4; rank++) {
      data[rank] = mean.data(rank, 4, 26, /* adversarial= */ false);
    }
    ranks.run(
        (comm, stream) -> {
          CallOptions options = CallOptions.defaults().withQuantisation(format, block);
          try (DeviceMemory memory = mean.memory(comm, data[comm.rank()])) {
            mean.call(comm.withOptions(options), memory, memory, stream);
            stream.synchronize();
            float[] got = mean.floats(memory);
            double[] sums = mean.expected(data).sums();
            double error = 0;
            double norm = 0;
            for (int i = 0; i < got.length; i++) {
              error += (got[i] - sums[i]) * (got[i] - sums[i]);
              norm += sums[i] * sums[i];
            }
            double relative = Math.sqrt(error / norm);
            assertTrue(relative <= most, mean + " has the relative error " + relative);
            assertTrue(relative >= most / 2, mean + ": the guide states too much: " + relative);
          }
        });
  }

  /**
   * Over many calls the error of the mean call goes to 0, of an all-reduce's second rounding too.
   */
  @Test
  void errorFeedback() throws Exception {
    int calls = 64;
    try (Ranks ranks = new Ranks(3)) {
      for (Operation what : new Operation[] {Operation.ALL_REDUCE, Operation.REDUCE_SCATTER}) {
        for (RedOp op : new RedOp[] {RedOp.SUM, RedOp.AVG}) {
          QuantisedCase each =
              new QuantisedCase(what, DataType.FLOAT32, DataType.INT8, 32, op, 1000);
          ranks.run((comm, stream) -> repeat(each, comm, stream, calls));
        }
      }
    }
  }

  /** Calls it with the same data and errors of its own, and looks at the mean result. */
  static void repeat(QuantisedCase each, Communicator comm, DeviceStream stream, int calls) {
    int n = comm.nRanks();
    float[][] data = new float[n][];
    for (int rank = 0; rank < n; rank++) {
      data[rank] = each.data(rank, n, SEED, /* adversarial= */ false);
    }
    double[] sums = each.expected(data).sums();
    double[] total = new double[each.count()];
    double first = 0;
    try (DeviceMemory send = each.memory(comm, data[comm.rank()]);
        DeviceMemory recv = comm.device().allocate(4L * each.count());
        DeviceMemory errors = comm.device().allocate(send.size())) {
      errors.fill((byte) 0);
      Communicator view =
          comm.withOptions(
              CallOptions.defaults()
                  .withErrorFeedback(errors)
                  .withQuantisation(each.format(), each.block()));
      for (int call = 1; call <= calls; call++) {
        each.call(view, send, recv, stream);
        stream.synchronize();
        float[] got = each.floats(recv);
        double worst = 0;
        for (int i = 0; i < got.length; i++) {
          total[i] += got[i];
          int at = each.operation() == Operation.ALL_REDUCE ? i : comm.rank() * got.length + i;
          worst = Math.max(worst, Math.abs(total[i] / call - sums[at]));
        }
        first = call == 1 ? worst : first;
        if (call == calls) {
          assertTrue(worst < first * 4 / calls, each + ": " + worst + " after " + first);
        }
      }
      assertArrayEquals(data[comm.rank()], each.floats(send), "the send buffer has changed");
    }
  }

  @Test
  void aBlockWithoutNumbersKeepsItsErrors() throws Exception {
    QuantisedCase each =
        new QuantisedCase(
            Operation.REDUCE_SCATTER, DataType.FLOAT32, DataType.FLOAT8_E4M3, 32, RedOp.SUM, 64);
    try (Ranks ranks = new Ranks(1)) {
      Communicator comm = ranks.communicators.get(0);
      float[] data = new float[64];
      data[3] = Float.POSITIVE_INFINITY;
      data[40] = 1;
      data[41] = 0.7f;
      try (DeviceMemory send = each.memory(comm, data);
          DeviceMemory recv = comm.device().allocate(256);
          DeviceMemory errors = Ranks.floats(64, i -> i == 41 ? 0 : 0.25)) {
        Communicator view =
            comm.withOptions(
                CallOptions.defaults()
                    .withQuantisation(DataType.FLOAT8_E4M3, 32)
                    .withErrorFeedback(errors));
        each.call(view, send, recv, ranks.streams.get(0));
        ranks.streams.get(0).synchronize();
        float[] got = each.floats(recv);
        float[] kept = Ranks.floats(errors);
        for (int i = 0; i < 32; i++) {
          assertTrue(Float.isNaN(got[i]), "element " + i + " is " + got[i]);
          assertEquals(0.25f, kept[i]);
        }
        assertEquals(1.25f, got[40]);
        assertEquals(0, kept[40]);
        assertEquals(0.7f - got[41], kept[41]);
        assertTrue(kept[41] != 0);
      }
    }
  }

  @Test
  void aWarmCallAllocatesNothing() throws Exception {
    int operations = 500;
    QuantisedCase each = sample(4096);
    try (Ranks ranks = new Ranks(2)) {
      Allocation allocation = new Allocation(2, operations, List.of());
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = each.memory(comm, each.data(comm.rank(), 2, SEED, true))) {
              Communicator view =
                  comm.withOptions(CallOptions.defaults().withQuantisation(each.format(), 32));
              allocation.measure(
                  () -> {
                    for (int i = 0; i < operations; i++) {
                      each.call(view, data, data, stream);
                      stream.synchronize();
                    }
                  });
            }
          });
      allocation.assertNothing();
    }
  }

  /** Twenty sizes by turns, as of gradients, without and with errors. */
  @Test
  void manySizesByTurnsAllocateNothing() throws Exception {
    int sizes = 20;
    int rounds = 10;
    QuantisedCase largest = sample(8 * sizes * sizes);
    try (Ranks ranks = new Ranks(2)) {
      Allocation allocation = new Allocation(2, 2 * sizes * rounds, List.of());
      ranks.run(
          (comm, stream) -> {
            CallOptions options = CallOptions.defaults().withQuantisation(largest.format(), 32);
            Communicator view = comm.withOptions(options);
            List<Communicator> feeding = new ArrayList<>();
            try (DeviceMemory data = largest.memory(comm, new float[largest.count()]);
                DeviceMemory errors = Ranks.floats(largest.count() * sizes, i -> 0)) {
              for (int size = 0; size < sizes; size++) {
                DeviceMemory own = errors.slice(4L * largest.count() * size, 4L * largest.count());
                feeding.add(comm.withOptions(options.withErrorFeedback(own)));
              }
              allocation.measure(
                  () -> {
                    for (int call = 0; call < sizes * rounds; call++) {
                      int size = call % sizes + 1;
                      int count = 8 * size * size;
                      view.allReduce(data, data, count, largest.type(), RedOp.SUM, stream);
                      feeding
                          .get(call % sizes)
                          .allReduce(data, data, count, largest.type(), RedOp.SUM, stream);
                      stream.synchronize();
                    }
                  });
            }
          });
      allocation.assertNothing();
    }
  }

  /** A refusal changes nothing: the ranks go on in step. */
  @Test
  void wrongCallsAreRefused() throws Exception {
    CallOptions options = CallOptions.defaults();
    refused("float", () -> options.withQuantisation(DataType.FLOAT32, 32));
    refused("64", () -> options.withQuantisation(DataType.INT8, 64));
    refused("null", () -> options.withErrorFeedback(null));
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(64, i -> 1);
                DeviceMemory few = Ranks.floats(63, i -> 0)) {
              CallOptions int8 = options.withQuantisation(DataType.INT8, 32);
              Communicator view = comm.withOptions(int8);
              refused(
                  "max", () -> view.allReduce(data, data, 64, DataType.FLOAT32, RedOp.MAX, stream));
              refused(
                  "int32", () -> view.allReduce(data, data, 64, DataType.INT32, RedOp.SUM, stream));
              ReductionOperator twice = ReductionOperator.preMulSum(DataType.FLOAT32, 2);
              refused(
                  "operator",
                  () -> view.reduceScatter(data, data, 32, DataType.FLOAT32, twice, stream));
              Communicator feeding = comm.withOptions(int8.withErrorFeedback(few));
              refused(
                  "252 bytes",
                  () -> feeding.allReduce(data, data, 64, DataType.FLOAT32, RedOp.SUM, stream));
              refused(
                  "252 bytes",
                  () ->
                      Group.run(
                          () ->
                              feeding.reduceScatter(
                                  data, data, 32, DataType.FLOAT32, RedOp.SUM, stream)));
              DeviceMemory closed = Ranks.floats(64, n -> 0);
              Communicator late = comm.withOptions(int8.withErrorFeedback(closed));
              closed.close();
              refused(
                  "closed",
                  () -> late.allReduce(data, data, 64, DataType.FLOAT32, RedOp.SUM, stream));
              view.broadcast(data, data, 64, DataType.INT32, 0, stream);
              view.allReduce(data, data, 64, DataType.FLOAT32, RedOp.SUM, stream);
              stream.synchronize();
              assertEquals(2, Ranks.floats(data)[63]);
            }
          });
    }
  }

  private static void refused(String word, Runnable call) {
    NcclException e = assertThrows(InvalidArgumentException.class, call::run);
    assertTrue(e.getMessage().contains(word), e.getMessage());
    assertTrue(e.getMessage().contains("Remedy: "), e.getMessage());
  }

  /** Ranks whose formats differ get an error instead of each other's codes. */
  @Test
  void differentFormatsAreAnError() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      int failed = 0;
      for (var task :
          ranks.start(
              (comm, stream) -> {
                DataType format = comm.rank() == 0 ? DataType.INT8 : DataType.FLOAT8_E4M3;
                Communicator view =
                    comm.withOptions(CallOptions.defaults().withQuantisation(format, 32));
                try (DeviceMemory data = Ranks.floats(64, i -> 1)) {
                  view.allReduce(data, data, 64, DataType.FLOAT32, RedOp.SUM, stream);
                  stream.synchronize();
                }
              })) {
        Throwable cause =
            assertThrows(ExecutionException.class, () -> task.get(300, TimeUnit.SECONDS))
                .getCause();
        assertTrue(cause.getMessage().contains("alltoall"), cause.getMessage());
        failed++;
      }
      assertEquals(2, failed);
    }
  }

  /** A table of the times of a sum and of a gather, in microseconds, for each size. */
  private static CommunicatorConfig costs(Path folder, int sum, int gather) throws IOException {
    Path table = folder.resolve("costs");
    Files.write(
        table,
        List.of(
            "device host",
            "2 AllReduce Ring Simple 64:%1$d 67108864:%1$d".formatted(sum),
            "2 AllGather Ring Simple 64:%1$d 67108864:%1$d".formatted(gather)));
    return CommunicatorConfig.defaults()
        .with("NCCL4J_COSTS_FILE", table.toString())
        .with("NCCL_ALGO", "allreduce:ring;allgather:ring")
        .with("NCCL_PROTO", "allreduce:simple;allgather:simple");
  }

  /** On links that make the plain sum slow: here a table says so. */
  @Test
  void explainSaysWhereItPays(@TempDir Path folder) throws IOException {
    CommunicatorConfig config = costs(folder, 1_000_000, 10);
    try (Ranks ranks = new Ranks(2, config)) {
      Communicator view =
          ranks
              .communicators
              .get(0)
              .withOptions(CallOptions.defaults().withQuantisation(DataType.INT8, 32));
      String text = view.explain(Operation.ALL_REDUCE, 1 << 20, DataType.FLOAT32);
      assertTrue(text.contains("\n  it pays\n"), text);
    }
  }

  @Test
  void explainSaysWhetherItPays(@TempDir Path folder) throws IOException {
    try (Ranks ranks = new Ranks(2, costs(folder, 10, 1_000_000))) {
      Communicator view =
          ranks
              .communicators
              .get(0)
              .withOptions(CallOptions.defaults().withQuantisation(DataType.FLOAT8_E4M3, 128));
      String text = view.explain(Operation.ALL_REDUCE, 1 << 20, DataType.BFLOAT16);
      assertTrue(text.contains("f8e4m3 with a scale for every 128 elements"), text);
      assertTrue(text.contains("does not pay"), text);
      assertTrue(text.contains("1081920 bytes from each rank, 2097152"), text);
      assertFalse(view.explain(Operation.BROADCAST, 100, DataType.FLOAT32).contains("quantised"));
    }
  }
}
