package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Communicator.ShrinkMode;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.OrderMismatchException;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Communicators that are made of communicators, and how they end. */
@Timeout(600)
class SplitTest {
  private static final CommunicatorConfig DEFAULTS = CommunicatorConfig.defaults();

  /** The sum over the communicator of 1 + rank, by an all-reduce of some size. */
  private static float sum(Communicator comm, DeviceStream stream, int count, float mine) {
    try (DeviceMemory data = Ranks.floats(count, i -> mine)) {
      comm.allReduce(data, data, count, DataType.FLOAT32, RedOp.SUM, stream);
      stream.synchronize();
      return Ranks.floats(data)[count - 1];
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void colorsAndKeysMakeCommunicatorsThatWorkBesideTheirParent(boolean share) throws Exception {
    CommunicatorConfig config = DEFAULTS.withSplitShare(share);
    try (Ranks ranks = new Ranks(5)) {
      ranks.run(
          (comm, stream) -> {
            int color = comm.rank() == 4 ? Communicator.NO_COLOR : comm.rank() % 2;
            Optional<Communicator> child = comm.split(color, -comm.rank(), config);
            assertEquals(comm.rank() == 4, child.isEmpty());
            for (int count : new int[] {1, 5000, 1, 300_000}) {
              assertEquals(15, sum(comm, stream, count, 1 + comm.rank()));
              if (child.isPresent()) {
                assertEquals(2, child.get().nRanks());
                assertEquals(comm.rank() < 2 ? 1 : 0, child.get().rank());
                float expected = color == 0 ? 1 + 3 : 2 + 4;
                assertEquals(expected, sum(child.get(), stream, count, 1 + comm.rank()));
              }
            }
            child.ifPresent(Communicator::close);
            assertEquals(15, sum(comm, stream, 100, 1 + comm.rank()));
          });
    }
  }

  @Test
  void aSplitAndACommunicatorOfOneRankHoldNoMemory() throws Exception {
    try (Ranks ranks = new Ranks(3);
        Ranks one = new Ranks(1)) {
      assertEquals(0, total(one.communicators.get(0)));
      assertTrue(total(ranks.communicators.get(0)) > 0);
      ranks.run(
          (comm, stream) -> {
            long before = total(comm);
            try (Communicator child = comm.split(0, 0).orElseThrow()) {
              assertEquals(0, total(child));
              assertEquals(6, sum(child, stream, 1000, 1 + comm.rank()));
              assertEquals(before, total(comm));
            }
          });
    }
  }

  private static long total(Communicator comm) {
    return comm.memory().values().stream().mapToLong(Long::longValue).sum();
  }

  @ParameterizedTest
  @ValueSource(ints = {2, 4})
  void operationsTakeTurnsOnTheConnections(int n) throws Exception {
    long seed = Long.getLong("nccl4j.seed", 1);
    System.out.println("seed " + seed);
    try (Ranks ranks = new Ranks(n)) {
      ranks.run(
          (comm, stream) -> {
            try (SplitProgram program = new SplitProgram(comm, 3000, seed)) {
              assertEquals(0, program.heldBySplits());
              for (int round = 0; round < 4; round++) {
                program.batch();
              }
            }
          });
    }
  }

  @Test
  void splitsOfSplitsOutliveTheirParents() throws Exception {
    Ranks ranks = new Ranks(4);
    ranks.run(
        (comm, stream) -> {
          Communicator half = comm.split(comm.rank() / 2, 0).orElseThrow();
          Communicator pair = half.split(0, -half.rank()).orElseThrow();
          assertEquals(1 - comm.rank() % 2, pair.rank());
          half.close();
          comm.close();
          assertEquals(comm.rank() < 2 ? 3 : 7, sum(pair, stream, 64, 1 + comm.rank()));
          assertThrows(InvalidUsageException.class, () -> comm.split(0, 0));
          pair.close();
        });
    ranks.close();
  }

  @Test
  void differentOrdersOnSharedConnectionsAreNamedInDebugMode() throws Exception {
    CommunicatorConfig config = DEFAULTS.with("NCCL_CHECK_MODE", "DEBUG_GLOBAL").withName("all");
    try (Ranks ranks = new Ranks(2, config)) {
      var tasks =
          ranks.start(
              (comm, stream) -> {
                CommunicatorConfig named = DEFAULTS.withName("pair");
                try (Communicator child = comm.split(0, 0, named).orElseThrow()) {
                  List<Communicator> order =
                      comm.rank() == 0 ? List.of(comm, child) : List.of(child, comm);
                  order.forEach(c -> sum(c, stream, 1000, 1));
                }
              });
      for (var task : tasks) {
        ExecutionException e = assertThrows(ExecutionException.class, task::get);
        assertTrue(e.getCause() instanceof OrderMismatchException, e.toString());
        assertTrue(e.getMessage().contains("communicator all"), e.getMessage());
        assertTrue(e.getMessage().contains("communicator pair"), e.getMessage());
      }
    }
  }

  @Test
  void afterAFailureTheOthersGoOn() throws Exception {
    try (Ranks ranks = new Ranks(4, DEFAULTS.withOperationTimeout(Duration.ofSeconds(30)))) {
      ranks.run(
          (comm, stream) -> {
            if (comm.rank() == 2) {
              comm.abort();
              return;
            }
            assertThrows(NcclException.class, () -> sum(comm, stream, 1000, 1));
            try (Communicator left = comm.shrink(Set.of(2), ShrinkMode.ABORT)) {
              assertEquals(3, left.nRanks());
              assertEquals(1 + 2 + 4, sum(left, stream, 100_000, 1 + comm.rank()));
            }
          });
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void shrinkingWithoutAFailure(boolean share) throws Exception {
    try (Ranks ranks = new Ranks(3)) {
      ranks.run(
          (comm, stream) -> {
            assertEquals(6, sum(comm, stream, 10, 1 + comm.rank()));
            if (comm.rank() > 0) {
              CommunicatorConfig config = DEFAULTS.withShrinkShare(share);
              try (Communicator left = comm.shrink(Set.of(0), ShrinkMode.WAIT, config)) {
                assertEquals(5, sum(left, stream, 10, 1 + comm.rank()));
              }
            }
          });
    }
  }

  @Test
  void growing() throws Exception {
    UniqueId id = UniqueId.create();
    try (Ranks ranks = new Ranks(2)) {
      CompletableFuture<Communicator> third =
          Communicator.initRankAsync(3, id, 2, Devices.host(), DEFAULTS);
      ranks.run(
          (comm, stream) -> {
            assertThrows(InvalidArgumentException.class, () -> comm.grow(2, id, DEFAULTS));
            try (Communicator more = comm.grow(3, id, DEFAULTS)) {
              if (comm.rank() == 0) {
                try (Communicator last = third.get(300, TimeUnit.SECONDS);
                    DeviceStream its = Devices.host().createStream()) {
                  CompletableFuture<Float> theirs =
                      CompletableFuture.supplyAsync(() -> sum(last, its, 10, 3));
                  assertEquals(6, sum(more, stream, 10, 1));
                  assertEquals(6, theirs.get(300, TimeUnit.SECONDS));
                }
              } else {
                assertEquals(6, sum(more, stream, 10, 2));
              }
            }
          });
    }
  }

  @Test
  void closeEndsWhatHangsInItsTime() {
    Ranks ranks = new Ranks(2);
    try (DeviceMemory data = Ranks.floats(16, i -> 1)) {
      Communicator comm = ranks.communicators.get(0);
      DeviceStream stream = ranks.streams.get(0);
      comm.allReduce(data, data, 16, DataType.FLOAT32, RedOp.SUM, stream);
      stream.isIdle();
      comm.close(Duration.ofMillis(1));
      NcclException e = assertThrows(NcclException.class, stream::synchronize);
      assertTrue(e.getMessage().contains("closed communicator"), e.getMessage());
      assertTrue(ranks.communicators.get(1).asyncError().isPresent());
      comm.close();
    }
    ranks.close();
  }

  @Test
  void finishRefusesWhatComesAfterIt() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      ranks.run(
          (comm, stream) -> {
            assertEquals(3, sum(comm, stream, 10, 1 + comm.rank()));
            comm.finish().get(300, TimeUnit.SECONDS);
            InvalidUsageException e =
                assertThrows(InvalidUsageException.class, () -> sum(comm, stream, 10, 1));
            assertTrue(e.getMessage().contains("after finish"), e.getMessage());
          });
    }
  }

  /** The stream does not come to the operation: a function of the program runs before it. */
  @Test
  void finishEndsWithTheCommunicator() throws Exception {
    CountDownLatch release = new CountDownLatch(1);
    Ranks ranks =
        new Ranks(2, CommunicatorConfig.defaults().withOperationTimeout(Duration.ofDays(1)));
    try (DeviceMemory data = Ranks.floats(16, i -> 1)) {
      Communicator comm = ranks.communicators.get(0);
      DeviceStream stream = ranks.streams.get(0);
      stream.launchHostFunction(() -> await(release));
      comm.allReduce(data, data, 16, DataType.FLOAT32, RedOp.SUM, stream);
      stream.isIdle();
      CompletableFuture<Void> end = comm.finish();
      comm.close(Duration.ofMillis(1));
      ExecutionException e =
          assertThrows(ExecutionException.class, () -> end.get(300, TimeUnit.SECONDS));
      assertEquals(ErrorId.STILL_RUNNING, ((NcclException) e.getCause()).id());
      release.countDown();
      assertThrows(NcclException.class, stream::synchronize);
    }
    ranks.close();
  }

  private static void await(CountDownLatch latch) {
    try {
      assertTrue(latch.await(600, TimeUnit.SECONDS));
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  @Test
  void aRevokedCommunicatorFailsOnAllRanks() throws Exception {
    try (Ranks ranks = new Ranks(3)) {
      ranks.run(
          (comm, stream) -> {
            if (comm.rank() == 1) {
              comm.revoke();
            }
            NcclException e = assertThrows(NcclException.class, () -> sum(comm, stream, 10, 1));
            assertTrue(e.getMessage().contains("revoked by rank 1"), e.getMessage());
          });
    }
  }

  /** Within the process, and by sockets. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aRevokedCommunicatorIsSplitAndShrunkWithoutAbort(boolean inside) throws Exception {
    try (Ranks ranks = inside ? new Ranks(3) : Ranks.onHosts("abb", DEFAULTS)) {
      ranks.run(
          (comm, stream) -> {
            comm.revoke();
            int color = comm.rank() == 2 ? 1 : 0;
            try (Communicator part = comm.split(color, -comm.rank()).orElseThrow()) {
              assertEquals(comm.rank() == 0 ? 1 : 0, part.rank());
              assertEquals(3, sum(part, stream, 10, 1 + comm.rank()));
            }
            if (comm.rank() != 1) {
              try (Communicator rest = comm.shrink(Set.of(1), ShrinkMode.WAIT)) {
                assertEquals(4, sum(rest, stream, 10, 1 + comm.rank()));
              }
            }
          });
    }
  }

  @Test
  void optionsOfSingleOperations() throws Exception {
    try (Ranks ranks = new Ranks(3)) {
      ranks.run(
          (comm, stream) -> {
            CallOptions options = CallOptions.defaults().withAlgorithm("Tree").withProtocol("LL");
            Communicator tree = comm.withOptions(options);
            assertEquals(
                Algorithm.TREE,
                tree.chosenAlgorithm(Operation.ALL_REDUCE, 1 << 20, DataType.FLOAT32).algorithm());
            assertEquals(
                Protocol.LL,
                tree.chosenAlgorithm(Operation.ALL_REDUCE, 1 << 20, DataType.FLOAT32).protocol());
            assertEquals(6, sum(tree, stream, 70_000, 1 + comm.rank()));
            assertEquals(6, sum(comm, stream, 70_000, 1 + comm.rank()));
          });
      assertThrows(
          InvalidArgumentException.class,
          () ->
              ranks.communicators.get(0).withOptions(CallOptions.defaults().withAlgorithm("Rign")));
      assertThrows(InvalidArgumentException.class, () -> CallOptions.defaults().withMaxCtas(0));
    }
  }
}
