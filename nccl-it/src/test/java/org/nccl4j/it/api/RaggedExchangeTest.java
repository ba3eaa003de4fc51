package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.Group;
import org.nccl4j.api.RaggedConfig;
import org.nccl4j.api.RaggedExchange;
import org.nccl4j.api.Window;
import org.nccl4j.api.observe.flight.FlightReader;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.device.CudaFunctor;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.support.Patience;

/** All-to-all, all-gather and reduce-scatter by counts in device memory, on the host device. */
@Timeout(600)
class RaggedExchangeTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);
  private static final int CALLS = 9;

  private static void calls(Ranks ranks, RaggedConfig config) throws Exception {
    System.out.println("seed " + SEED);
    ranks.run((comm, stream) -> RaggedCalls.run(comm, stream, config, CALLS, SEED));
  }

  private static RaggedConfig sizes(int elementBytes, long maxCount, long maxReceived) {
    return new RaggedConfig(elementBytes, maxCount, maxReceived, DataType.INT64);
  }

  @Test
  void elementsOfAllSizesOnSomeRanks() throws Exception {
    for (int n = 1; n <= 5; n++) {
      try (Ranks ranks = new Ranks(n)) {
        for (int elementBytes : new int[] {1, 2, 4, 8, 3, 48}) {
          calls(ranks, sizes(elementBytes, 101, n * 101L));
        }
      }
    }
  }

  @Test
  void countsOfInt32AndSmallBounds() throws Exception {
    try (Ranks ranks = new Ranks(3)) {
      calls(ranks, new RaggedConfig(2, 5000, 7001, DataType.INT32));
      calls(ranks, new RaggedConfig(1, 1, 1, DataType.INT32));
      calls(ranks, sizes(8, 40, 60));
    }
  }

  @Test
  void ranksOfSeveralHosts() throws Exception {
    try (Ranks ranks = Ranks.onHosts("aabab", CommunicatorConfig.defaults())) {
      calls(ranks, sizes(4, 3000, 15000));
    }
  }

  @Test
  void elementsThatAreReceivedIntoWindows() throws Exception {
    System.out.println("seed " + SEED);
    try (Ranks ranks = new Ranks(3)) {
      ranks.run(
          (comm, stream) -> {
            RaggedCalls.runInWindow(comm, stream, sizes(3, 200, 600), CALLS, SEED);
            RaggedCalls.runInWindow(comm, stream, sizes(8, 1000, 1500), CALLS, SEED);
          });
    }
  }

  @Test
  void windowsThatNoExchangeCanReceiveIntoAreRefused() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory memory = comm.device().memAlloc(64);
                DeviceMemory other = comm.device().memAlloc(64);
                DeviceMemory counts = longs(1, 2)) {
              Window window = comm.registerWindow(memory);
              Window second = comm.registerWindow(other);
              refused(
                  "has 64 bytes of 72", () -> comm.createRaggedExchange(sizes(8, 9, 9), window));
              refused(
                  "window=" + (comm.rank() + 1),
                  () ->
                      comm.createRaggedExchange(
                          sizes(8, 8, 8), comm.rank() == 0 ? window : second));
              refused("window", () -> comm.createRaggedExchange(sizes(8, 8, 8), (Window) null));
              try (RaggedExchange exchange = comm.createRaggedExchange(sizes(8, 4, 8), window)) {
                refused("received ones", () -> exchange.allToAll(memory, counts, stream));
                exchange.allToAll(other, counts, stream);
                stream.synchronize();
                comm.deregisterWindowOnAllRanks(window);
                refused("not registered any more", () -> exchange.allToAll(other, counts, stream));
              }
              refused(
                  "not registered with it",
                  () -> comm.createRaggedExchange(sizes(8, 4, 8), window));
            }
          });
    }
  }

  @Test
  void sizesThatNoExchangeHasAreRefused() {
    for (Runnable wrong :
        new Runnable[] {
          () -> sizes(0, 1, 1),
          () -> sizes(1, 0, 1),
          () -> sizes(1, 1, 0),
          () -> sizes(1 << 20, 1L << 31, 1),
          () -> new RaggedConfig(1, 1, 1L << 31, DataType.INT32),
          () -> new RaggedConfig(1, 1, 1, DataType.UINT32)
        }) {
      InvalidArgumentException e = assertThrows(InvalidArgumentException.class, wrong::run);
      assertTrue(e.getMessage().contains("Remedy: "), e.getMessage());
    }
  }

  private static DeviceMemory longs(long... values) {
    ByteBuffer data = ByteBuffer.allocate(8 * values.length).order(ByteOrder.nativeOrder());
    data.asLongBuffer().put(values);
    DeviceMemory memory = Devices.host().allocate(8L * values.length);
    memory.write(0, data);
    return memory;
  }

  private static long[] longs(DeviceMemory memory) {
    ByteBuffer data = ByteBuffer.allocate((int) memory.size()).order(ByteOrder.nativeOrder());
    memory.read(0, data);
    long[] values = new long[data.capacity() / 8];
    data.flip().asLongBuffer().get(values);
    return values;
  }

  /** A refusal changes nothing: the same exchange goes on with the ranks in step. */
  @Test
  void countsThatAreNotAllowedAreAnErrorOfAllRanks() throws Exception {
    try (Ranks ranks = new Ranks(3)) {
      ranks.run(
          (comm, stream) -> {
            int rank = comm.rank();
            try (RaggedExchange exchange = comm.createRaggedExchange(sizes(4, 10, 20));
                DeviceMemory send = Devices.host().allocate(4 * 15)) {
              exchange.received().fill((byte) 0x5a);
              refused(
                  "rank 1 has the count 11 for rank 2",
                  () -> exchange.allToAll(send, longs(0, 0, rank == 1 ? 11 : 0), stream));
              refused(
                  "rank 0 has the count -1 for rank 1",
                  () -> exchange.allToAll(send, longs(0, rank == 0 ? -1 : 0, 0), stream));
              refused(
                  "rank 2 sends 16 elements, more than its send buffer has, 15",
                  () -> exchange.allToAll(send, longs(5, 5, rank == 2 ? 6 : 5), stream));
              refused(
                  "rank 1 would receive 21 elements, more than the exchange allows, 20",
                  () -> exchange.allToAll(send, longs(0, 7, 0), stream));
              refused(
                  "rank 0 has the count %d for rank 0".formatted(Long.MIN_VALUE),
                  () -> exchange.allGather(send, longs(rank == 0 ? Long.MIN_VALUE : 1), stream));
              refused(
                  "rank 0 would receive 24 elements",
                  () -> exchange.allGather(send, longs(8), stream));
              for (long word : longs(exchange.received().slice(0, 72))) {
                assertEquals(0x5a5a5a5a5a5a5a5aL, word);
              }
              send.fill((byte) 1);
              exchange.allToAll(send, longs(1, 2, 3), stream);
              stream.synchronize();
              assertEquals(3L * (rank + 1), longs(exchange.receivedOffsets())[3]);
            }
          });
    }
  }

  @Test
  void wrongCallsAreRefusedAndChangeNothing() throws Exception {
    RaggedConfig config = sizes(4, 10, 20);
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            refused("group", () -> Group.run(() -> comm.createRaggedExchange(config)));
            RaggedExchange exchange = comm.createRaggedExchange(config);
            assertFalse(exchange.isCapturable());
            assertEquals(config, exchange.config());
            try (DeviceMemory send = Devices.host().allocate(80);
                DeviceMemory counts = longs(3, 4)) {
              refused("send", () -> exchange.allToAll(null, counts, stream));
              refused("counts", () -> exchange.allToAll(send, null, stream));
              DeviceMemory few = counts.slice(0, 8);
              refused("counts has 8 bytes of 16", () -> exchange.allToAll(send, few, stream));
              DeviceMemory received = exchange.received().slice(4, 8);
              refused("received ones", () -> exchange.allToAll(received, counts, stream));
              refused("group", () -> Group.run(() -> exchange.allToAll(send, counts, stream)));
              refused("experts or ragged ones", comm::suspend);
              exchange.allGather(send, few, stream);
              exchange.close();
              exchange.close();
              refused("closed", () -> exchange.allToAll(send, counts, stream));
              assertFalse(exchange.received().isOpen());
            }
            comm.suspend();
            comm.resume();
          });
    }
  }

  /** The counts that a call has brought are those of the way back. */
  @Test
  void countsOfACallAreThoseOfTheNext() throws Exception {
    try (Ranks ranks = new Ranks(3)) {
      ranks.run(
          (comm, stream) -> {
            int rank = comm.rank();
            try (RaggedExchange there = comm.createRaggedExchange(sizes(8, 10, 30));
                RaggedExchange back = comm.createRaggedExchange(sizes(8, 10, 30));
                DeviceMemory send = longs(0, 1, 2, 3, 4, 5);
                DeviceMemory counts = longs(rank, 3 - rank, 2)) {
              there.allToAll(send, counts, stream);
              back.allToAll(there.received(), there.receivedCounts(), stream);
              back.allToAll(there.received(), there.receivedCounts(), stream);
              stream.synchronize();
              long[] returned = longs(back.received());
              for (int i = 0; i < 5; i++) {
                assertEquals(i, returned[i]);
              }
              assertEquals(3L - rank, longs(back.receivedCounts())[1]);
            }
          });
    }
  }

  /**
   * The counts travel behind what the stream was given before: the call waits for both at once. The
   * stream waits for the launch that brings the counts.
   */
  @Test
  void aCallWaitsOnce() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            try (RaggedExchange exchange = comm.createRaggedExchange(sizes(8, 10, 20));
                DeviceMemory send = longs(1, 2, 3, 4);
                DeviceMemory counts = longs(2, 2)) {
              long before = launched(comm);
              boolean[] isAhead = {false};
              stream.launchHostFunction(
                  () ->
                      isAhead[0] =
                          Patience.until(() -> launched(comm) > before, Duration.ofSeconds(60)));
              exchange.allToAll(send, counts, stream);
              stream.synchronize();
              assertTrue(isAhead[0], "it waited before it told the others its counts");
            }
          });
    }
  }

  private static long launched(Communicator comm) {
    return FlightReader.ofThisProcess(List.of()).stream()
        .filter(report -> report.name().equals(comm.name()) && report.rank() == comm.rank())
        .mapToLong(RankReport::launched)
        .max()
        .orElseThrow();
  }

  @Test
  void ranksInDifferentCallsAreToldAndGoOn() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            int rank = comm.rank();
            try (RaggedExchange first = comm.createRaggedExchange(sizes(4, 10, 20));
                RaggedExchange second = comm.createRaggedExchange(sizes(4, 10, 20));
                DeviceMemory send = Devices.host().allocate(80);
                DeviceMemory counts = longs(3, 4)) {
              NcclException e =
                  refused(
                      "rank %d is in an all-to-all of exchange %d".formatted(1 - rank, 2 - rank),
                      () -> (rank == 0 ? first : second).allToAll(send, counts, stream));
              assertEquals(ErrorId.CALLS_DIFFER, e.id());
              refused(
                  rank == 0
                      ? "rank 1 is in an all-gather of exchange 1, and this rank in an all-to-all"
                      : "rank 0 is in an all-to-all of exchange 1, and this rank in an all-gather",
                  () -> {
                    if (rank == 0) {
                      first.allToAll(send, counts, stream);
                    } else {
                      first.allGather(send, counts, stream);
                    }
                  });
              first.allToAll(send, counts, stream);
              second.allToAll(send, counts, stream);
              stream.synchronize();
              assertEquals(3L + rank, longs(second.receivedCounts())[0]);
            }
          });
    }
  }

  private static NcclException refused(String word, Runnable call) {
    NcclException e = assertThrows(NcclException.class, call::run);
    assertTrue(
        e instanceof InvalidArgumentException || e instanceof InvalidUsageException, e.toString());
    assertTrue(e.getMessage().contains(word), e.getMessage());
    assertTrue(e.getMessage().contains("Remedy: "), e.getMessage());
    return e;
  }

  @Test
  void differentSizesAreRefusedOnAllRanks() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      int refused = 0;
      for (FutureTask<Void> task :
          ranks.start((comm, stream) -> comm.createRaggedExchange(sizes(4, 10 + comm.rank(), 9)))) {
        Throwable cause =
            assertThrows(ExecutionException.class, () -> task.get(300, TimeUnit.SECONDS))
                .getCause();
        assertTrue(cause.getMessage().contains("maxCount=11"), cause.getMessage());
        refused++;
      }
      assertEquals(2, refused);
      calls(ranks, sizes(4, 10, 20));
    }
  }

  private static void reductions(Ranks ranks, DataType type, int perElement, DataType countType)
      throws Exception {
    System.out.println("seed " + SEED);
    ranks.run(
        (comm, stream) ->
            RaggedReductions.run(comm, stream, type, perElement, countType, CALLS, SEED));
  }

  @Test
  void sumsOfAllTypes() throws Exception {
    try (Ranks ranks = new Ranks(3)) {
      for (DataType type : DataType.values()) {
        reductions(ranks, type, 1, DataType.INT64);
      }
      reductions(ranks, DataType.FLOAT32, 7, DataType.INT32);
    }
  }

  @Test
  void sumsOfOneRankAndOfSeveralHosts() throws Exception {
    try (Ranks ranks = new Ranks(1)) {
      reductions(ranks, DataType.FLOAT32, 1, DataType.INT64);
    }
    try (Ranks ranks = Ranks.onHosts("aabab", CommunicatorConfig.defaults())) {
      reductions(ranks, DataType.BFLOAT16, 2, DataType.INT32);
    }
  }

  /** Of 4 bytes: the first two of an element, in the order of the ranks. */
  private static final ReductionOperator FIRST_PAIR =
      ReductionOperator.functionOfStructs("first and last", 4)
          .onHost(
              (a, b, target, count, type) -> {
                for (int i = 0; i < 4 * count; i += 4) {
                  target.putShort(i, a.getShort(i)).putShort(i + 2, b.getShort(i + 2));
                }
              })
          .notCommutative()
          .build();

  /** Elements of two structs each; of the ranks' structs the first half of one, then another. */
  @Test
  void structsInTheOrderOfTheRanks() throws Exception {
    for (String hosts : new String[] {"aaa", "aba"}) {
      try (Ranks ranks = Ranks.onHosts(hosts, CommunicatorConfig.defaults())) {
        ranks.run(
            (comm, stream) -> {
              try (RaggedExchange exchange = comm.createRaggedExchange(sizes(8, 10, 10));
                  DeviceMemory send = Devices.host().allocate(8 * 12);
                  DeviceMemory counts = longs(3, 4, 5)) {
                ByteBuffer parts = ByteBuffer.allocate(96).order(ByteOrder.nativeOrder());
                while (parts.hasRemaining()) {
                  parts.putShort((short) (1000 * (comm.rank() + 1) + parts.position() / 2));
                }
                send.write(0, parts.flip());
                exchange.reduceScatter(send, counts, DataType.UINT8, FIRST_PAIR, stream);
                stream.synchronize();
                int first = new int[] {0, 3, 7}[comm.rank()] * 4;
                int numbers = 4 * (3 + comm.rank());
                ByteBuffer read = ByteBuffer.allocate(2 * numbers).order(ByteOrder.nativeOrder());
                exchange.received().slice(0, 2L * numbers).read(0, read);
                for (int i = 0; i < numbers; i++) {
                  int source = i % 2 == 0 ? 1000 : 3000;
                  assertEquals(source + first + i, read.getShort(2 * i), hosts + ", " + i);
                }
              }
            });
      }
    }
  }

  @Test
  void scalarsOfPreMultipliedSums() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            DataType type = DataType.INT64;
            try (RaggedExchange exchange = comm.createRaggedExchange(sizes(8, 4, 8));
                DeviceMemory send = longs(1, 2, 3);
                DeviceMemory counts = longs(1, 2)) {
              ReductionOperator scaled = ReductionOperator.preMulSum(type, comm.rank() + 2L);
              exchange.reduceScatter(send, counts, type, scaled, stream);
              stream.synchronize();
              assertEquals(comm.rank() == 0 ? 5 : 10, longs(exchange.received())[0]);
            }
          });
    }
  }

  /** A refusal changes nothing. */
  @Test
  void operatorsThatAreNotAllowedAreRefused() throws Exception {
    DataType type = DataType.FLOAT32;
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            int rank = comm.rank();
            try (RaggedExchange exchange = comm.createRaggedExchange(sizes(6, 4, 8));
                RaggedExchange numbers = comm.createRaggedExchange(sizes(4, 4, 8));
                DeviceMemory send = Devices.host().allocate(36);
                DeviceMemory counts = longs(1, 2)) {
              assertFalse(exchange.isReduceScatterCapturable());
              refused(
                  "elements of 6 bytes do not consist of whole structs of 4",
                  () -> exchange.reduceScatter(send, counts, DataType.UINT8, FIRST_PAIR, stream));
              refused(
                  "was created for uint8, but the elements are float",
                  () -> numbers.reduceScatter(send, counts, type, FIRST_PAIR, stream));
              ReductionOperator none = null;
              refused("operator", () -> numbers.reduceScatter(send, counts, type, none, stream));
              ReductionOperator sum =
                  ReductionOperator.function("of rank " + rank, type)
                      .onHost((a, b, target, count, of) -> {})
                      .build();
              NcclException differ =
                  refused(
                      "rank %d reduces float (function ".formatted(1 - rank),
                      () -> numbers.reduceScatter(send, counts, type, sum, stream));
              assertEquals(ErrorId.CALLS_DIFFER, differ.id());
              ReductionOperator gpus =
                  ReductionOperator.function("of GPUs", type)
                      .onCuda(CudaFunctor.ofSource("None", "struct None {};"))
                      .build();
              refused(
                  "has no reduction 'of GPUs'",
                  () -> numbers.reduceScatter(send, counts, type, gpus, stream));
              numbers.reduceScatter(send, counts, type, RedOp.SUM, stream);
              stream.synchronize();
              assertEquals(1L + rank, longs(numbers.receivedCounts())[0]);
            }
          });
    }
  }

  /** A refusal changes nothing. */
  @Test
  void sumsThatAreNotAllowedAreAnErrorOfAllRanks() throws Exception {
    RedOp sum = RedOp.SUM;
    try (Ranks ranks = new Ranks(3)) {
      ranks.run(
          (comm, stream) -> {
            int rank = comm.rank();
            try (RaggedExchange exchange = comm.createRaggedExchange(sizes(4, 10, 8));
                DeviceMemory send = Devices.host().allocate(4 * 15);
                DeviceMemory counts = longs(3, 4, 5)) {
              exchange.received().fill((byte) 0x5a);
              DataType type = DataType.FLOAT32;
              refused(
                  "rank 1 has the count 4 for rank 2, and rank 0 3",
                  () ->
                      exchange.reduceScatter(
                          send, longs(3, 3, rank == 1 ? 4 : 3), type, sum, stream));
              refused(
                  "rank 2 has the count -1 for rank 0",
                  () ->
                      exchange.reduceScatter(
                          send, longs(rank == 2 ? -1 : 0, 0, 0), type, sum, stream));
              refused(
                  "rank 0 sends 16 elements, more than its send buffer has, 15",
                  () -> exchange.reduceScatter(send, longs(8, 8, 0), type, sum, stream));
              refused(
                  "rank 1 would receive 9 elements, more than the exchange allows, 8",
                  () -> exchange.reduceScatter(send, longs(0, 9, 0), type, sum, stream));
              refused(
                  "elements of 4 bytes do not consist of whole numbers of double",
                  () -> exchange.reduceScatter(send, counts, DataType.FLOAT64, sum, stream));
              refused("type", () -> exchange.reduceScatter(send, counts, null, sum, stream));
              refused("op", () -> exchange.reduceScatter(send, counts, type, (RedOp) null, stream));
              refused(
                  "counts has 16 bytes of 24",
                  () -> exchange.reduceScatter(send, counts.slice(0, 16), type, sum, stream));
              refused(
                  "received ones",
                  () -> exchange.reduceScatter(exchange.received(), counts, type, sum, stream));
              refused(
                  "group",
                  () -> Group.run(() -> exchange.reduceScatter(send, counts, type, sum, stream)));
              for (long word : longs(exchange.received())) {
                assertEquals(0x5a5a5a5a5a5a5a5aL, word);
              }
              NcclException differ =
                  refused(
                      rank == 0
                          ? "rank 1 reduces int32 (sum), and this rank float (sum)"
                          : "rank 0 reduces float (sum), and this rank int32 (sum)",
                      () ->
                          exchange.reduceScatter(
                              send, counts, rank == 0 ? type : DataType.INT32, sum, stream));
              assertEquals(ErrorId.CALLS_DIFFER, differ.id());
              refused(
                  rank == 0
                      ? "rank 1 is in an all-to-all of exchange 1, and this rank in a reduce-scatter"
                      : "rank 0 is in a reduce-scatter of exchange 1, and this rank in an all-to-all",
                  () -> {
                    if (rank == 0) {
                      exchange.reduceScatter(send, counts, type, sum, stream);
                    } else {
                      exchange.allToAll(send, counts, stream);
                    }
                  });
              send.fill((byte) 1);
              exchange.reduceScatter(send, counts, DataType.INT32, sum, stream);
              stream.synchronize();
              assertEquals(3L + rank, longs(exchange.receivedOffsets())[3]);
              ByteBuffer first = ByteBuffer.allocate(4).order(ByteOrder.nativeOrder());
              exchange.received().slice(0, 4).read(0, first);
              assertEquals(0x03030303, first.getInt(0));
            }
          });
    }
  }
}
