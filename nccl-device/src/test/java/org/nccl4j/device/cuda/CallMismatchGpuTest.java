package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Two ranks whose calls differ get an error, soon and not by the deadline. Needs GPUs; both prepare
 * before any launches, since they may share one.
 */
@Tag("gpu")
class CallMismatchGpuTest {
  private static final Duration DEADLINE = Duration.ofMinutes(2);
  private static final long PATIENCE_NANOS = 300_000_000_000L;
  private static final int BYTES = 4 << 20;

  /** The second rank's call; the first rank sums 1000 int32 on all ranks. */
  enum Other {
    COUNT,
    TYPE,
    OPERATOR,
    COLLECTIVE;

    Operation operation() {
      return this == COLLECTIVE ? Operation.REDUCE_SCATTER : Operation.ALL_REDUCE;
    }

    DataType type() {
      return this == TYPE ? DataType.FLOAT32 : DataType.INT32;
    }

    RedOp op() {
      return this == OPERATOR ? RedOp.MAX : RedOp.SUM;
    }

    int count() {
      return this == COUNT ? 1001 : this == COLLECTIVE ? 500 : 1000;
    }
  }

  private record Case(Other other, Algorithm algorithm, Protocol protocol) {}

  private static Stream<Case> cases() {
    return Stream.of(Other.values())
        .flatMap(
            other ->
                Stream.of(Protocol.values())
                    .flatMap(
                        protocol ->
                            Stream.of(Algorithm.RING, Algorithm.ONE_SHOT)
                                .map(algorithm -> new Case(other, algorithm, protocol))));
  }

  @ParameterizedTest
  @MethodSource("cases")
  void collectives(Case each) {
    Other other = each.other;
    CollectiveWork first = work(each, Operation.ALL_REDUCE, DataType.INT32, RedOp.SUM, 0, 1000);
    CollectiveWork second =
        work(each, other.operation(), other.type(), other.op(), 0, other.count());
    differ(ranks -> List.of(prepare(ranks, 0, first), prepare(ranks, 1, second)));
  }

  /** Each waits for the other, which sends for another root or waits too. */
  @ParameterizedTest
  @EnumSource
  void rootsOfBroadcasts(Protocol protocol) {
    Case each = new Case(null, Algorithm.RING, protocol);
    CollectiveWork first = work(each, Operation.BROADCAST, DataType.INT32, RedOp.SUM, 1, 1000);
    CollectiveWork second = work(each, Operation.ALL_REDUCE, DataType.INT32, RedOp.SUM, 1, 1000);
    differ(ranks -> List.of(prepare(ranks, 0, first), prepare(ranks, 1, second)));
  }

  @ParameterizedTest
  @EnumSource
  void messages(Protocol protocol) {
    differ(
        ranks ->
            List.of(
                prepare(ranks, 0, message(P2pWork.Kind.SEND, 1, 5000, protocol)),
                prepare(ranks, 1, message(P2pWork.Kind.RECV, 0, 6000, protocol))));
  }

  @ParameterizedTest
  @EnumSource(
      value = Algorithm.class,
      names = {"DIRECT_LL", "DIRECT_ONE_SHOT", "DIRECT_TWO_SHOT", "COPY_ENGINE"})
  void betweenWindows(Algorithm way) {
    try (GpuRanks ranks = new GpuRanks(2, DEADLINE);
        DirectRanks windows = new DirectRanks(ranks, BYTES)) {
      WindowWork first = direct(windows, 0, way, RedOp.SUM, 1000);
      WindowWork second = direct(windows, 1, way, RedOp.MAX, 1000);
      List<KernelPlan> both = List.of(prepare(ranks, 0, first), prepare(ranks, 1, second));
      for (int rank = 0; rank < 2; rank++) {
        launch(ranks, rank, both.get(rank), windows.send.get(rank), windows.recv.get(rank));
      }
      assertTrue(firstFailure(ranks).problem().contains("different calls"));
    }
  }

  @ParameterizedTest
  @EnumSource(
      value = Algorithm.class,
      names = {"DIRECT_ONE_SHOT", "DIRECT_TWO_SHOT", "COPY_ENGINE"})
  void buffersAtDifferentOffsetsOfTheirWindows(Algorithm way) {
    try (GpuRanks ranks = new GpuRanks(2, DEADLINE);
        DirectRanks windows = new DirectRanks(ranks, BYTES)) {
      List<KernelPlan> plans = new ArrayList<>();
      for (int rank = 0; rank < 2; rank++) {
        plans.add(prepare(ranks, rank, direct(windows, rank, way, RedOp.SUM, 1000)));
      }
      for (int rank = 0; rank < 2; rank++) {
        launch(
            ranks,
            rank,
            plans.get(rank),
            windows.send.get(rank).slice(128L * rank, 4000),
            windows.recv.get(rank).slice(0, 4000));
      }
      assertTrue(firstFailure(ranks).problem().contains("different offsets"));
    }
  }

  /** The receiver's buffer lies in a window, and the sender is not to write beyond it. */
  @Test
  void largeMessagesThatGoStraightIntoWindows() {
    try (GpuRanks ranks = new GpuRanks(2, DEADLINE);
        DirectRanks windows = new DirectRanks(ranks, BYTES)) {
      List<KernelPlan> plans = new ArrayList<>();
      for (int rank = 0; rank < 2; rank++) {
        P2pWork work =
            new P2pWork(
                rank == 0 ? P2pWork.Kind.SEND : P2pWork.Kind.RECV,
                1 - rank,
                windows.recv.get(rank),
                0,
                (3 << 20) + (rank == 0 ? 128 : 0),
                Protocol.SIMPLE,
                new P2pWork.Offer(windows.recvs.get(rank)));
        plans.add(prepare(ranks, rank, work));
      }
      launch(ranks, 0, plans.get(0), null, null);
      launch(ranks, 1, plans.get(1), null, null);
      assertTrue(firstFailure(ranks).problem().contains("different calls"));
    }
  }

  private interface Plans {
    List<KernelPlan> of(GpuRanks ranks);
  }

  private static void differ(Plans plans) {
    try (GpuRanks ranks = new GpuRanks(2, DEADLINE);
        DeviceMemory first = ranks.devices.get(0).allocate(16_000);
        DeviceMemory second = ranks.devices.get(1).allocate(16_000)) {
      List<KernelPlan> both = plans.of(ranks);
      launch(ranks, 0, both.get(0), first, first);
      launch(ranks, 1, both.get(1), second, second);
      assertTrue(firstFailure(ranks).problem().contains("different calls"));
    }
  }

  /** The first failure of any of the ranks, all of which it then ends. */
  private static NcclException firstFailure(GpuRanks ranks) {
    NcclException found = null;
    long start = System.nanoTime();
    while (found == null && System.nanoTime() - start < PATIENCE_NANOS) {
      found =
          ranks.communicators.stream()
              .map(CudaKernelCommunicator::failure)
              .filter(Objects::nonNull)
              .findFirst()
              .orElse(null);
    }
    ranks.communicators.forEach(c -> c.abort(new RemoteException("the test ends", "none")));
    for (CudaStream stream : ranks.streams) {
      try {
        stream.synchronize();
      } catch (NcclException e) {
        continue; // which is known
      }
    }
    assertNotNull(found, "no rank has noticed");
    assertInstanceOf(InvalidUsageException.class, found);
    assertEquals(ErrorId.CALLS_DIFFER, found.id(), found.getMessage());
    return found;
  }

  private static void launch(
      GpuRanks ranks, int rank, KernelPlan plan, DeviceMemory send, DeviceMemory recv) {
    ranks.communicators.get(rank).launch(plan, send, recv, ranks.streams.get(rank));
  }

  private static KernelPlan prepare(GpuRanks ranks, int rank, CollectiveWork work) {
    return ranks.communicators.get(rank).prepare(work);
  }

  private static KernelPlan prepare(GpuRanks ranks, int rank, WindowWork work) {
    return ranks.communicators.get(rank).prepare(work);
  }

  private static KernelPlan prepare(GpuRanks ranks, int rank, P2pWork work) {
    return ranks.communicators.get(rank).prepare(List.of(work));
  }

  private static P2pWork message(P2pWork.Kind kind, int peer, int bytes, Protocol protocol) {
    return new P2pWork(kind, peer, null, 0, bytes, protocol);
  }

  private static CollectiveWork work(
      Case each, Operation operation, DataType type, RedOp op, int root, int count) {
    return new CollectiveWork(
        operation, each.algorithm, each.protocol, type, op, root, count, 2, 1 << 20);
  }

  private static WindowWork direct(
      DirectRanks windows, int rank, Algorithm way, RedOp op, int count) {
    return new WindowWork(
        Operation.ALL_REDUCE,
        way,
        DataType.INT32,
        op,
        0,
        count,
        way.needsSend(Operation.ALL_REDUCE) ? windows.sends.get(rank) : null,
        way.needsRecv(Operation.ALL_REDUCE) ? windows.recvs.get(rank) : null,
        0);
  }
}
