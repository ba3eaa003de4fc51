package org.nccl4j.api.init.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.FakeKernels;
import org.nccl4j.api.observe.flight.FlightRecorder;
import org.nccl4j.api.observe.flight.RankReport.Replays;
import org.nccl4j.api.observe.flight.RankReport.Traffic;
import org.nccl4j.api.plan.PlannedAlgorithms;
import org.nccl4j.api.plan.RankTraffic;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.CapturedLaunches;
import org.nccl4j.device.kernel.Tree;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Estimates follow from operations that have ended, and from how they were planned. */
class EstimatedTrafficTest {
  private static final int COUNT = 1000;

  private final FlightRecorder log =
      FlightRecorder.open(
          new FlightRecorder.Rank(
              "estimates", System.nanoTime(), 0, 4, Operation.keys(), "0000:1b:00.0"));

  private final PlannedAlgorithms planned = new PlannedAlgorithms();
  private final Counting kernels = new Counting();

  /** Ranks 1 and 2 are on this machine. */
  private final EstimatedTraffic traffic =
      new EstimatedTraffic(
          List::of,
          log,
          planned,
          new RankTraffic(
              0,
              4,
              List.of(new int[] {0, 1, 2, 3}),
              List.of(new Tree(2, List.of())),
              Set.of(0, 1, 2)),
          kernels,
          4,
          new TreeMap<>(Map.of(1, "P2P", 2, "P2P")));

  private static final class Counting extends FakeKernels {
    long ended;
    final List<CapturedLaunches> captured = new ArrayList<>();

    @Override
    public void visitCaptured(Consumer<CapturedLaunches> visitor) {
      captured.forEach(visitor);
    }

    @Override
    public long ended() {
      return ended;
    }
  }

  @AfterEach
  void close() {
    log.close();
  }

  private static long sum(DataType type) {
    return CallShape.of(Operation.ALL_REDUCE, type, RedOp.SUM, 0);
  }

  /** The traffic of the record as others read it. */
  private List<Traffic> look(long ended) {
    kernels.ended = ended;
    log.observe(kernels, 1);
    log.observe(traffic.get(), kernels);
    return log.report(Operation.keys()).links().traffic();
  }

  private static void assertIs(int peer, String way, long sent, long received, Traffic is) {
    assertEquals(peer, is.peer());
    assertEquals(way, is.way());
    assertEquals(sent, is.bytes());
    assertEquals(received, is.received());
  }

  /**
   * Of ten sums of 4000 bytes four have ended, then all: a ring of four sends 1.5 times as much.
   */
  @Test
  void operationsCountWhenTheyHaveEnded() {
    planned.put(sum(DataType.FLOAT32), COUNT, Algorithm.RING);
    for (int times = 0; times < 10; times++) {
      log.collective(sum(DataType.FLOAT32), COUNT);
    }
    assertEquals(List.of(), look(0));
    List<Traffic> some = look(4);
    assertEquals(1, some.size());
    assertIs(1, "P2P", 4 * 6000, 0, some.get(0));
    assertIs(1, "P2P", 10 * 6000, 0, look(10).get(0));
    assertIs(1, "P2P", 10 * 6000, 0, look(10).get(0));
  }

  /** The next call goes up a tree, and the one after through the switch. */
  @Test
  void thePlannedAlgorithmCounts() {
    planned.put(sum(DataType.FLOAT32), COUNT, Algorithm.TREE);
    planned.put(sum(DataType.FLOAT64), COUNT, Algorithm.NVLS);
    log.collective(sum(DataType.FLOAT32), COUNT);
    log.collective(sum(DataType.FLOAT64), COUNT);
    List<Traffic> all = look(2);
    assertEquals(2, all.size());
    assertIs(2, "P2P", 4000, 0, all.get(0));
    // 8000 bytes, and a third of them.
    assertIs(-1, "NVLS", 10_666, 10_666, all.get(1));
  }

  /** Sums of 4000 bytes have a bus factor of 1.5 among four ranks. */
  @Test
  void operationsOfGraphsAreOnRecord() {
    log.collective(sum(DataType.FLOAT32), COUNT);
    CapturedLaunches graph = new CapturedLaunches();
    kernels.captured.add(graph);
    for (int times = 0; times < 2; times++) {
      log.collective(sum(DataType.FLOAT32), COUNT);
      graph.add(1 + times, 2 + times);
    }
    look(3);
    assertEquals(Replays.NONE, log.report(Operation.keys()).replays());
    for (int times = 0; times < 11; times++) {
      graph.replayed();
    }
    look(3);
    look(3);
    assertEquals(new Replays(20, 80_000, 120_000), log.report(Operation.keys()).replays());
  }

  /** The launch that was captured stands for the graph's first. */
  @Test
  void graphsCountAsOftenAsTheyAreLaunched() {
    planned.put(sum(DataType.FLOAT32), COUNT, Algorithm.RING);
    log.collective(sum(DataType.FLOAT32), COUNT);
    CapturedLaunches graph = new CapturedLaunches();
    kernels.captured.add(graph);
    for (int times = 0; times < 2; times++) {
      graph.add(1 + times, 2 + times); // before it is on record
      log.collective(sum(DataType.FLOAT32), COUNT);
    }
    log.other(CallShape.of(Operation.SEND, DataType.INT8, RedOp.SUM, 1), 500);
    graph.add(3, 4);
    assertIs(1, "P2P", 3 * 6000 + 500, 0, look(4).get(0));
    graph.replayed();
    assertIs(1, "P2P", 3 * 6000 + 500, 0, look(4).get(0));
    for (int times = 0; times < 10; times++) {
      graph.replayed();
    }
    assertIs(1, "P2P", 3 * 6000 + 500 + 10 * (2 * 6000 + 500), 0, look(4).get(0));
    graph.replayed();
    graph.end();
    look(4);
    kernels.captured.clear();
    assertIs(1, "P2P", 3 * 6000 + 500 + 11 * (2 * 6000 + 500), 0, look(4).get(0));
  }

  @Test
  void putsCountWhereTheyGo() {
    log.other(CallShape.of(Operation.PUT_SIGNAL, DataType.INT32, RedOp.SUM, 2), 500);
    log.other(CallShape.of(Operation.SIGNAL, DataType.INT8, RedOp.SUM, 2), 0);
    log.other(CallShape.of(Operation.WAIT_SIGNAL, DataType.INT8, RedOp.SUM, 1), 0);
    List<Traffic> all = look(3);
    assertEquals(1, all.size());
    assertIs(2, "P2P", 2000, 0, all.get(0));
  }

  /** As if tokens were spread evenly; a part that only receives sends nothing. */
  @Test
  void exchangesCountTheMostThatTheyMaySend() {
    long dispatch = CallShape.of(Operation.DISPATCH, DataType.BFLOAT16, RedOp.SUM, 0);
    planned.putElementBytes(dispatch, 8.0);
    log.other(dispatch, 100);
    log.other(CallShape.of(Operation.DISPATCH, DataType.BFLOAT16, RedOp.SUM, 1), 100);
    log.other(CallShape.of(Operation.RAGGED_ALL_GATHER, DataType.UINT8, RedOp.SUM, 0), 30);
    log.other(CallShape.of(Operation.RAGGED_REDUCE_SCATTER, DataType.UINT8, RedOp.SUM, 0), 5);
    log.other(CallShape.of(Operation.RAGGED_REDUCE_SCATTER, DataType.UINT8, RedOp.SUM, 1), 5);
    List<Traffic> all = look(5);
    assertEquals(2, all.size());
    assertIs(1, "P2P", 200 + 30 + 5, 0, all.get(0));
    assertIs(2, "P2P", 200 + 30 + 5, 0, all.get(1));
  }

  /** A send counts on the side that sends; calls without a known size count nothing. */
  @Test
  void sendsCountAndUnknownSizesDoNot() {
    log.other(CallShape.of(Operation.SEND, DataType.INT8, RedOp.SUM, 2), 500);
    log.other(CallShape.of(Operation.RECV, DataType.INT8, RedOp.SUM, 1), 500);
    log.other(FlightRecorder.UNNAMED, 7);
    log.other(CallShape.of(Operation.DISPATCH, DataType.INT8, RedOp.SUM, 0), 9);
    List<Traffic> all = look(4);
    assertEquals(1, all.size());
    assertIs(2, "P2P", 500, 0, all.get(0));
  }

  /** More runs than there is room for: those on record stand for all. */
  @Test
  void operationsThatWereOverwrittenCountAsTheOthers() {
    for (int times = 0; times < 1000; times++) {
      log.collective(sum(times % 2 == 0 ? DataType.FLOAT32 : DataType.INT32), COUNT);
    }
    Traffic all = look(1000).get(0);
    assertIs(1, "P2P", 1000 * 6000, 0, all);
  }
}
