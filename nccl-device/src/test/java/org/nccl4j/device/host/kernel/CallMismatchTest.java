package org.nccl4j.device.host.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Ranks whose calls differ: data of another call are an error, never a result. */
@Timeout(600)
class CallMismatchTest {
  private static final ConnectionLayout LAYOUT = new ConnectionLayout(64 * 16, 11 * 128, 1024);
  private static final Duration PATIENCE = Duration.ofSeconds(300);
  private static final int BYTES = 64 << 10;
  private static final CollectiveWork PLAIN =
      new CollectiveWork(
          Operation.ALL_REDUCE,
          Algorithm.RING,
          Protocol.LL,
          DataType.FLOAT32,
          RedOp.SUM,
          0,
          512,
          1,
          256);

  private static CollectiveWork work(
      Operation operation, DataType type, RedOp op, int root, long count) {
    return new CollectiveWork(
        operation, Algorithm.RING, Protocol.LL, type, op, root, count, 1, PLAIN.chunkBytes());
  }

  private static CollectiveWork by(CollectiveWork work, Algorithm algorithm, Protocol protocol) {
    return new CollectiveWork(
        work.operation(),
        algorithm,
        protocol,
        work.type(),
        work.op(),
        work.root(),
        work.count(),
        1,
        work.chunkBytes());
  }

  /** Two calls each, of which rank 0 makes the first and all others the second. */
  private static Map<String, List<CollectiveWork>> pairs() {
    CollectiveWork rooted = work(Operation.BROADCAST, DataType.FLOAT32, RedOp.SUM, 0, 512);
    return Map.of(
        "types",
        List.of(PLAIN, work(Operation.ALL_REDUCE, DataType.INT32, RedOp.SUM, 0, 512)),
        "operators",
        List.of(PLAIN, work(Operation.ALL_REDUCE, DataType.FLOAT32, RedOp.MAX, 0, 512)),
        "counts",
        List.of(PLAIN, work(Operation.ALL_REDUCE, DataType.FLOAT32, RedOp.SUM, 0, 1024)),
        "small counts",
        List.of(
            work(Operation.ALL_REDUCE, DataType.FLOAT32, RedOp.SUM, 0, 8),
            work(Operation.ALL_REDUCE, DataType.FLOAT32, RedOp.SUM, 0, 60)),
        "collectives",
        List.of(PLAIN, work(Operation.ALL_GATHER, DataType.FLOAT32, RedOp.SUM, 0, 512)),
        "types of what is moved",
        List.of(rooted, work(Operation.BROADCAST, DataType.INT32, RedOp.SUM, 0, 512)));
  }

  private record Way(Algorithm algorithm, Protocol protocol) {}

  private static Stream<Way> ways() {
    return Stream.of(Algorithm.RING, Algorithm.TREE, Algorithm.ONE_SHOT, Algorithm.TWO_SHOT)
        .flatMap(a -> Stream.of(Protocol.values()).map(p -> new Way(a, p)));
  }

  private static boolean has(Algorithm algorithm, CollectiveWork work) {
    return algorithm == Algorithm.RING
        || algorithm == Algorithm.ONE_SHOT
        || work.operation() == Operation.ALL_REDUCE;
  }

  @TestFactory
  Stream<DynamicTest> collectivesThatDifferAreNamed() {
    return pairs().entrySet().stream()
        .flatMap(
            pair ->
                ways()
                    .filter(w -> pair.getValue().stream().allMatch(x -> has(w.algorithm, x)))
                    .map(
                        w ->
                            DynamicTest.dynamicTest(
                                pair.getKey() + " by " + w,
                                () -> assertDiffer(pair.getValue(), w, w))));
  }

  @TestFactory
  Stream<DynamicTest> callsThatGoInDifferentWaysAreNamed() {
    return ways()
        .filter(way -> way.algorithm == Algorithm.RING)
        .flatMap(
            one ->
                ways()
                    .filter(other -> other.algorithm == Algorithm.RING && !other.equals(one))
                    .map(
                        other ->
                            DynamicTest.dynamicTest(
                                one + " and " + other,
                                () -> assertDiffer(pairs().get("counts"), one, other))));
  }

  private static void assertDiffer(List<CollectiveWork> pair, Way first, Way others) {
    for (int n = 2; n <= 3; n++) {
      try (LocalRanks ranks = new LocalRanks(n, LAYOUT, PATIENCE)) {
        List<KernelPlan> plans = new ArrayList<>();
        for (int rank = 0; rank < n; rank++) {
          Way way = rank == 0 ? first : others;
          CollectiveWork work = by(pair.get(rank == 0 ? 0 : 1), way.algorithm, way.protocol);
          plans.add(ranks.communicators.get(rank).prepare(work));
        }
        boolean sendsOnly = pair.get(0).operation() == Operation.BROADCAST;
        assertDiffer(ranks, plans, sendsOnly);
      }
    }
  }

  /**
   * One rank at least finds it; that one is told to the others, as the engine does.
   *
   * @param sendsOnly whether rank 0 has nothing to receive
   */
  private static void assertDiffer(LocalRanks ranks, List<KernelPlan> plans, boolean sendsOnly) {
    List<DeviceMemory> buffers = new ArrayList<>();
    for (int rank = 0; rank < ranks.n; rank++) {
      DeviceMemory send = ranks.device.allocate(BYTES);
      DeviceMemory recv = ranks.device.allocate(BYTES);
      buffers.add(send);
      buffers.add(recv);
      ranks.communicators.get(rank).launch(plans.get(rank), send, recv, ranks.streams.get(rank));
    }
    ranks.streams.forEach(DeviceStream::startNow);
    NcclException found = null;
    while (found == null) {
      found =
          ranks.communicators.stream()
              .map(KernelCommunicator::failure)
              .filter(failure -> failure != null)
              .findFirst()
              .orElse(null);
      Thread.onSpinWait();
    }
    NcclException first = found;
    ranks.communicators.forEach(communicator -> communicator.abort(first));
    // A root that only sends has ended before the others find out.
    for (DeviceStream stream : ranks.streams.subList(sendsOnly ? 1 : 0, ranks.n)) {
      NcclException thrown = assertThrows(NcclException.class, stream::synchronize);
      assertEquals(ErrorId.CALLS_DIFFER, thrown.id(), thrown.getMessage());
      assertTrue(
          thrown.getMessage().contains("received data of another call"), thrown.getMessage());
    }
    buffers.forEach(DeviceMemory::close);
  }

  @TestFactory
  Stream<DynamicTest> messagesOfDifferentSizeAreNamed() {
    return Stream.of(
            List.of(4096, 2048),
            List.of(2048, 4096),
            List.of(400, 100),
            List.of(48, 100),
            List.of(8, 4))
        .flatMap(
            sizes ->
                Stream.of(Protocol.values())
                    .flatMap(
                        sent ->
                            Stream.of(Protocol.values())
                                .map(
                                    received ->
                                        DynamicTest.dynamicTest(
                                            "%s by %s and %s".formatted(sizes, sent, received),
                                            () -> assertMessagesDiffer(sizes, sent, received)))));
  }

  private static void assertMessagesDiffer(List<Integer> sizes, Protocol sent, Protocol received) {
    try (LocalRanks ranks = new LocalRanks(2, LAYOUT, PATIENCE)) {
      assertDiffer(
          ranks,
          List.of(
              ranks
                  .communicators
                  .get(0)
                  .prepare(
                      List.of(
                          new P2pWork(P2pWork.Kind.SEND, 1, null, 0, sizes.get(0), sent),
                          new P2pWork(P2pWork.Kind.RECV, 1, null, 0, 8, Protocol.LL))),
              ranks
                  .communicators
                  .get(1)
                  .prepare(
                      List.of(new P2pWork(P2pWork.Kind.RECV, 0, null, 0, sizes.get(1), received)))),
          false);
    }
  }

  @Test
  void aCallAfterOneThatAllHadAlikeIsNamed() {
    try (LocalRanks ranks = new LocalRanks(2, LAYOUT, PATIENCE)) {
      DeviceMemory buffer = ranks.device.allocate(BYTES);
      for (int rank = 0; rank < 2; rank++) {
        KernelCommunicator communicator = ranks.communicators.get(rank);
        communicator.launch(
            communicator.prepare(PLAIN),
            buffer.slice(rank * 4096L, 4096),
            buffer.slice(rank * 4096L, 4096),
            ranks.streams.get(rank));
      }
      ranks.streams.forEach(DeviceStream::startNow);
      ranks.streams.forEach(DeviceStream::synchronize);
      CollectiveWork other = work(Operation.ALL_REDUCE, DataType.FLOAT32, RedOp.MIN, 0, 512);
      assertDiffer(
          ranks,
          List.of(
              ranks.communicators.get(0).prepare(PLAIN), ranks.communicators.get(1).prepare(other)),
          false);
      buffer.close();
    }
  }
}
