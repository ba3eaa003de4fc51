package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.RaggedConfig;
import org.nccl4j.api.RaggedExchange;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.operation.Operation;

/**
 * All-to-all, all-gather and reduce-scatter by counts in device memory, on all GPUs. Needs GPUs.
 */
@Tag("gpu")
@Timeout(600)
class RaggedGpuTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);
  private static final int CALLS = 12;

  private static Ranks ranks(List<? extends Device> devices) {
    CommunicatorConfig config =
        CommunicatorConfig.defaults().withOperationTimeout(Duration.ofSeconds(30));
    return new Ranks(Communicator.initAll(List.copyOf(devices), config));
  }

  private static Ranks ranks() {
    return ranks(Devices.cuda().list());
  }

  private static RaggedConfig sizes(int elementBytes, long maxCount, long maxReceived) {
    return new RaggedConfig(elementBytes, maxCount, maxReceived, DataType.INT64);
  }

  private static void calls(Ranks ranks, RaggedConfig... all) throws Exception {
    System.out.println("seed " + SEED);
    for (RaggedConfig sizes : all) {
      ranks.run((comm, stream) -> RaggedCalls.run(comm, stream, sizes, CALLS, SEED));
    }
  }

  /** Elements of all sizes begin at odd addresses; a few bytes, and more than all blocks' packs. */
  @Test
  void randomCounts() throws Exception {
    try (Ranks ranks = ranks()) {
      int n = ranks.communicators.size();
      for (int elementBytes : new int[] {1, 2, 3, 4, 8, 16, 48}) {
        calls(ranks, sizes(elementBytes, 101, n * 101L), sizes(elementBytes, 30_011, n * 20_000L));
      }
      calls(
          ranks,
          new RaggedConfig(1, 3_000_017, n * 3_000_017L, DataType.INT32),
          new RaggedConfig(14336, 300, n * 300L, DataType.INT32),
          new RaggedConfig(1, 1, 1, DataType.INT32));
    }
  }

  @Test
  void elementsThatAreReceivedIntoWindows() throws Exception {
    System.out.println("seed " + SEED);
    try (Ranks ranks = ranks()) {
      int n = ranks.communicators.size();
      ranks.run(
          (comm, stream) -> {
            RaggedCalls.runInWindow(comm, stream, sizes(3, 5000, n * 5000L), CALLS, SEED);
            RaggedCalls.runInWindow(comm, stream, sizes(16, 70_000, n * 40_000L), CALLS, SEED);
          });
    }
  }

  @Test
  void aSingleRank() throws Exception {
    try (Ranks ranks = ranks(Devices.cuda().list().subList(0, 1))) {
      calls(ranks, sizes(3, 5000, 4000));
    }
  }

  /** Between hosts, as these ranks say they are, by sends and receives. */
  @Test
  void ranksOfSeveralHosts() throws Exception {
    assumeTrue(
        Devices.cuda().list().size() > 1,
        "needs 2 GPUs: kernels of ranks on one may wait for each other's launches");
    try (Ranks ranks = Ranks.onHosts("ab", Devices.cuda().list(), CommunicatorConfig.defaults())) {
      ranks.run(
          (comm, stream) -> {
            try (RaggedExchange exchange = comm.createRaggedExchange(sizes(4, 8, 8))) {
              assertTrue(!exchange.isCapturable());
            }
          });
      calls(ranks, sizes(3, 5000, 9000), new RaggedConfig(16, 700, 1400, DataType.INT32));
    }
  }

  /** A graph has calls of three exchanges, two of one; each replay has other counts. */
  @Test
  void replaysOfAGraph() throws Exception {
    try (Ranks ranks = ranks()) {
      int n = ranks.communicators.size();
      ranks.run(
          (comm, own) -> {
            CudaStream stream = (CudaStream) own;
            try (RaggedCalls first = new RaggedCalls(comm, sizes(2, 4001, n * 4001L), SEED);
                RaggedCalls gathered = new RaggedCalls(comm, sizes(1, 999, n * 500L), SEED + 1);
                RaggedCalls last = new RaggedCalls(comm, sizes(12, 70_000, n * 5L), SEED + 2)) {
              assertTrue(first.exchange().isCapturable());
              stream.beginCapture();
              first.capture(/* gathers= */ false, stream);
              gathered.capture(/* gathers= */ true, stream);
              first.capture(/* gathers= */ false, stream);
              last.capture(/* gathers= */ false, stream);
              try (CudaGraph graph = stream.endCapture()) {
                for (int replay = 0; replay < 20; replay++) {
                  first.draw(/* gathers= */ false);
                  gathered.draw(/* gathers= */ true);
                  last.draw(/* gathers= */ false);
                  graph.launch(stream);
                  stream.synchronize();
                  first.check(/* gathers= */ false);
                  gathered.check(/* gathers= */ true);
                  last.check(/* gathers= */ false);
                }
              }
              first.draw(/* gathers= */ true); // an eager call goes on with the graph's numbers
              first.call(/* gathers= */ true, stream);
              stream.synchronize();
              first.check(/* gathers= */ true);
            }
          });
    }
  }

  /** Calls without a wait between them, of which each overwrites what the one before received. */
  @Test
  void callsInARow() throws Exception {
    try (Ranks ranks = ranks()) {
      int n = ranks.communicators.size();
      ranks.run(
          (comm, stream) -> {
            Device device = comm.device();
            try (RaggedExchange there = comm.createRaggedExchange(sizes(4, 1000, n * 1000L));
                RaggedExchange back = comm.createRaggedExchange(sizes(4, 1000, n * 1000L));
                DeviceMemory send = device.allocate(4000L * n);
                DeviceMemory counts = device.allocate(8L * n)) {
              ByteBuffer elements = ByteBuffer.allocate(4000 * n).order(ByteOrder.nativeOrder());
              for (int i = 0; i < 1000 * n; i++) {
                elements.putInt(i + comm.rank() * 1_000_000);
              }
              send.write(0, elements.flip());
              ByteBuffer numbers = ByteBuffer.allocate(8 * n).order(ByteOrder.nativeOrder());
              int all = 0;
              for (int rank = 0; rank < n; rank++) {
                numbers.putLong((comm.rank() * 7 + rank * 131L) % 1000);
                all += (comm.rank() * 7 + rank * 131) % 1000;
              }
              counts.write(0, numbers.flip());
              for (int call = 0; call < 50; call++) {
                there.allToAll(call == 0 ? send : back.received(), counts, stream);
                back.allToAll(there.received(), there.receivedCounts(), stream);
              }
              stream.synchronize();
              ByteBuffer read = ByteBuffer.allocate(4 * all).order(ByteOrder.nativeOrder());
              back.received().read(0, read);
              assertEquals(elements.slice(0, 4 * all), read.flip());
            }
          });
    }
  }

  /** The counts of a call are those that the call before received, which this one overwrites. */
  @Test
  void countsThatACallOverwrites() throws Exception {
    try (Ranks ranks = ranks()) {
      int n = ranks.communicators.size();
      int most = 20_000;
      ranks.run(
          (comm, stream) -> {
            int me = comm.rank();
            Device device = comm.device();
            try (RaggedExchange exchange =
                    comm.createRaggedExchange(sizes(4, most, (long) n * most));
                DeviceMemory send = device.allocate(4L * n * most);
                DeviceMemory counts = device.allocate(8L * n)) {
              ByteBuffer elements = ByteBuffer.allocate(4 * n * most);
              elements.order(ByteOrder.nativeOrder());
              for (int i = 0; i < n * most; i++) {
                elements.putInt(i + me * 10_000_000);
              }
              send.write(0, elements.flip());
              for (int round = 0; round < 20; round++) {
                ByteBuffer numbers = ByteBuffer.allocate(8 * n).order(ByteOrder.nativeOrder());
                for (int rank = 0; rank < n; rank++) {
                  numbers.putLong(count(round, me, rank, most));
                }
                counts.write(0, numbers.flip());
                exchange.allToAll(send, counts, stream);
                for (int call = 0; call < 6; call++) {
                  exchange.allToAll(send, exchange.receivedCounts(), stream);
                }
                stream.synchronize();
                checkOverwritten(exchange, round, me, most);
              }
            }
          });
    }
  }

  private static int count(int round, int source, int target, int most) {
    return (source * 7919 + target * 104_729 + round * 611_953) % (round % 2 == 0 ? most : 50);
  }

  /** After seven calls the counts are again those of the first. */
  private static void checkOverwritten(RaggedExchange exchange, int round, int me, int most) {
    int n = (int) exchange.receivedCounts().size() / 8;
    ByteBuffer numbers = ByteBuffer.allocate(8 * n).order(ByteOrder.nativeOrder());
    exchange.receivedCounts().read(0, numbers);
    ByteBuffer read = ByteBuffer.allocate(4 * n * most).order(ByteOrder.nativeOrder());
    exchange.received().read(0, read);
    int at = 0;
    for (int source = 0; source < n; source++) {
      assertEquals(count(round, source, me, most), numbers.getLong(8 * source));
      int first = 0;
      for (int target = 0; target < me; target++) {
        first += count(round, source, target, most);
      }
      for (int i = 0; i < count(round, source, me, most); i++) {
        assertEquals(first + i + source * 10_000_000, read.getInt(4 * at++));
      }
    }
  }

  @Test
  void aCountThatIsNotAllowedIsAnErrorOfAllRanks() throws Exception {
    assertFails(11, 1000, 100, "rank 0 has the count 11 for rank 0");
    assertFails(-1, 1000, 100, "rank 0 has the count -1 for rank 0");
  }

  @Test
  void moreElementsThanThereAreIsAnErrorOfAllRanks() throws Exception {
    assertFails(9, 8, 100, "rank 0 sends 9 elements, more than its send buffer has");
  }

  @Test
  void moreElementsThanThereIsRoomForIsAnErrorOfAllRanks() throws Exception {
    assertFails(10, 1000, 9, "rank 0 would receive 10 elements, more than the exchange allows");
  }

  /** The first rank sends itself some elements, the others nothing; no rank writes anything. */
  private static void assertFails(long count, long room, long maxReceived, String problem)
      throws Exception {
    try (Ranks ranks = ranks()) {
      int n = ranks.communicators.size();
      ranks.run(
          (comm, stream) -> {
            Device device = comm.device();
            ByteBuffer numbers = ByteBuffer.allocate(8 * n).order(ByteOrder.nativeOrder());
            numbers.putLong(0, comm.rank() == 0 ? count : 0);
            try (RaggedExchange exchange = comm.createRaggedExchange(sizes(4, 10, maxReceived));
                DeviceMemory send = device.allocate(4 * room);
                DeviceMemory counts = device.allocate(8L * n)) {
              counts.write(0, numbers);
              exchange.received().fill((byte) 0x5a);
              NcclException e =
                  assertThrows(
                      NcclException.class,
                      () -> {
                        exchange.allToAll(send, counts, stream);
                        stream.synchronize();
                        comm.asyncError()
                            .ifPresent(
                                failed -> {
                                  throw failed;
                                });
                      });
              assertTrue(e.getMessage().contains(problem), e.getMessage());
              if (n == 1) {
                assertEquals(InvalidArgumentException.class, e.getClass(), e.toString());
              }
              ByteBuffer read = ByteBuffer.allocate((int) exchange.received().size());
              exchange.received().read(0, read);
              for (byte each : read.array()) {
                assertEquals(0x5a, each);
              }
            }
          });
    }
  }

  /** A graph has a sum of rows and a function of the user; each replay has other counts. */
  @Test
  void sumsInAGraph() throws Exception {
    try (Ranks ranks = ranks()) {
      int n = ranks.communicators.size();
      ranks.run(
          (comm, own) -> {
            CudaStream stream = (CudaStream) own;
            Device device = comm.device();
            ReductionOperator greatest = RaggedReductions.greatest(DataType.INT32);
            comm.prepare(Operation.REDUCE_SCATTER, 100, DataType.INT32, greatest);
            try (RaggedExchange sums = comm.createRaggedExchange(sizes(8, 5000, n * 5000L));
                RaggedExchange most = comm.createRaggedExchange(sizes(8, 5000, n * 5000L));
                DeviceMemory send = device.allocate(8L * n * 5000);
                DeviceMemory counts = device.allocate(8L * n)) {
              assertTrue(sums.isReduceScatterCapturable());
              ByteBuffer numbers = ByteBuffer.allocate(8 * n * 5000).order(ByteOrder.nativeOrder());
              for (int i = 0; i < 2 * n * 5000; i++) {
                numbers.putInt(i * 3 + comm.rank() * (i % 2 == 0 ? 7 : -7));
              }
              send.write(0, numbers.flip());
              stream.beginCapture();
              sums.reduceScatter(send, counts, DataType.INT32, RedOp.SUM, stream);
              most.reduceScatter(send, counts, DataType.INT32, greatest, stream);
              try (CudaGraph graph = stream.endCapture()) {
                for (int replay = 0; replay < 20; replay++) {
                  checkSums(comm.rank(), n, replay, counts, () -> run(graph, stream), sums, most);
                }
              }
            }
          });
    }
  }

  private static void run(CudaGraph graph, CudaStream stream) {
    graph.launch(stream);
    stream.synchronize();
  }

  private static void checkSums(
      int me,
      int n,
      int replay,
      DeviceMemory counts,
      Runnable call,
      RaggedExchange sums,
      RaggedExchange most) {
    ByteBuffer drawn = ByteBuffer.allocate(8 * n).order(ByteOrder.nativeOrder());
    int before = 0;
    for (int rank = 0; rank < n; rank++) {
      int count = count(replay, 0, rank, 5000);
      drawn.putLong(count);
      before += rank < me ? count : 0;
    }
    counts.write(0, drawn.flip());
    call.run();
    int mine = (int) drawn.getLong(8 * me);
    int all = n * (n - 1) / 2;
    ByteBuffer sum = ByteBuffer.allocate(8 * mine).order(ByteOrder.nativeOrder());
    ByteBuffer greatest = ByteBuffer.allocate(8 * mine).order(ByteOrder.nativeOrder());
    sums.received().slice(0, 8L * mine).read(0, sum);
    most.received().slice(0, 8L * mine).read(0, greatest);
    for (int i = 0; i < 2 * mine; i++) {
      int at = 2 * before + i;
      assertEquals(n * at * 3 + all * (at % 2 == 0 ? 7 : -7), sum.getInt(4 * i), "sum " + i);
      assertEquals(at * 3 + (at % 2 == 0 ? 7 * (n - 1) : 0), greatest.getInt(4 * i), "most " + i);
    }
  }

  /** A part's length on one rank is another on the others: no rank combines anything. */
  @Test
  void countsThatDifferAreAnErrorOfAllRanks() throws Exception {
    assumeTrue(Devices.cuda().list().size() > 1, "needs 2 GPUs");
    try (Ranks ranks = ranks()) {
      int n = ranks.communicators.size();
      ranks.run(
          (comm, stream) -> {
            ByteBuffer numbers = ByteBuffer.allocate(8 * n).order(ByteOrder.nativeOrder());
            numbers.putLong(0, comm.rank() == 1 ? 3 : 2);
            try (RaggedExchange exchange = comm.createRaggedExchange(sizes(4, 10, 10L * n));
                DeviceMemory send = comm.device().allocate(400);
                DeviceMemory counts = comm.device().allocate(8L * n)) {
              counts.write(0, numbers);
              NcclException e =
                  assertThrows(
                      NcclException.class,
                      () -> {
                        exchange.reduceScatter(send, counts, DataType.FLOAT32, RedOp.SUM, stream);
                        stream.synchronize();
                        comm.asyncError()
                            .ifPresent(
                                failed -> {
                                  throw failed;
                                });
                      });
              assertTrue(
                  e.getMessage().contains("rank 1 has the count 3 for rank 0, and rank 0 another"),
                  e.getMessage());
            }
          });
    }
  }

  /** By two kernels between windows. */
  @Test
  void sumsOfAllTypes() throws Exception {
    System.out.println("seed " + SEED);
    try (Ranks ranks = ranks()) {
      for (DataType type : DataType.values()) {
        ranks.run(
            (comm, stream) ->
                RaggedReductions.run(comm, stream, type, 3, DataType.INT64, CALLS, SEED));
      }
    }
  }
}
