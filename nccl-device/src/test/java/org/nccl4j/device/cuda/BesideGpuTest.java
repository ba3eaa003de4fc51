package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Kernels beside copy engines, between two ranks. Needs two GPUs. */
@Tag("gpu")
@Tag("two-gpus")
class BesideGpuTest {
  private static final Duration DEADLINE = Duration.ofSeconds(5);
  private static final List<Operation> OPERATIONS =
      List.of(
          Operation.ALL_GATHER,
          Operation.ALL_TO_ALL,
          Operation.REDUCE_SCATTER,
          Operation.ALL_REDUCE);

  /** Enough for several chunks of each kind, by as many blocks as are useful, and by few. */
  @ParameterizedTest
  @ValueSource(ints = {0, 12})
  void severalChunks(int blocks) {
    Random random = new Random(11);
    int most = 192 << 20;
    try (GpuRanks ranks = new GpuRanks(2, DEADLINE);
        DirectRanks windows = new DirectRanks(ranks, most)) {
      for (Operation operation : OPERATIONS) {
        int parts = operation == Operation.ALL_REDUCE ? 1 : 2;
        int count = (most >> 3) / parts + 1001;
        DirectGpuTest.check(
            ranks,
            windows,
            new DirectGpuTest.Kind(operation, Algorithm.COPY_ENGINE),
            DataType.FLOAT32,
            RedOp.SUM,
            count,
            random,
            0,
            blocks);
      }
    }
  }

  /** Down to a single block, which has nobody to combine while it moves. */
  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 5, 16, 48})
  void fewBlocks(int blocks) {
    Random random = new Random(blocks);
    int most = 96 << 20;
    try (GpuRanks ranks = new GpuRanks(2, DEADLINE);
        DirectRanks windows = new DirectRanks(ranks, most)) {
      for (Operation operation : OPERATIONS) {
        for (DataType type : List.of(DataType.FLOAT32, DataType.BFLOAT16, DataType.UINT8)) {
          int parts = operation == Operation.ALL_REDUCE ? 1 : 2;
          int count = (20 << 20) / type.bytes() / parts + 1 + random.nextInt(999);
          DirectGpuTest.check(
              ranks,
              windows,
              new DirectGpuTest.Kind(operation, Algorithm.COPY_ENGINE),
              type,
              RedOp.SUM,
              count,
              random,
              0,
              blocks);
        }
      }
    }
  }

  /**
   * Many after each other, each with the sums of the one before, on two ranks of which none, one or
   * both capture it into a graph; little, which kernels move there, and more, which engines copy.
   * Of few blocks engines also give the sums.
   */
  @ParameterizedTest
  @CsvSource({"3000000, 0", "26000000, 0", "3000000, 8", "26000000, 12"})
  void oneRankMayCaptureAndTheOtherNot(int count, int blocks) {
    try (GpuRanks ranks = new GpuRanks(2, DEADLINE);
        DirectRanks windows = new DirectRanks(ranks, 8L * count)) {
      for (int rank = 0; rank < 2; rank++) {
        windows.send.get(rank).write(0, ints(count, rank + 1));
      }
      int sum = 3;
      for (int round = 0; round < 12; round++) {
        for (int rank = 0; rank < 2; rank++) {
          CudaStream stream = ranks.streams.get(rank);
          if ((round >> rank & 1) != 0) {
            stream.beginCapture();
            sumAndExchange(ranks, windows, rank, count, blocks);
            CudaGraph graph = stream.endCapture();
            graph.launch(stream);
            graphs.add(graph);
          } else {
            sumAndExchange(ranks, windows, rank, count, blocks);
          }
        }
        ranks.synchronize();
        for (int rank = 0; rank < 2; rank++) {
          ByteBuffer got = DirectGpuTest.read(windows.send.get(rank)).limit(4 * count);
          int wrong = got.mismatch(ints(count, sum));
          assertEquals(-1, wrong, "round %d, rank %d".formatted(round, rank));
        }
        sum = 2 * sum;
      }
      graphs.forEach(CudaGraph::close);
    }
  }

  /** The word of sums is then of so many launches ago that it compares as one ahead. */
  @ParameterizedTest
  @ValueSource(ints = {(1 << 25) - 1, (1 << 26) - 2})
  void sumsAfterManyLaunchesWithout(int launchesBefore) {
    Random random = new Random(launchesBefore);
    int most = 96 << 20;
    try (GpuRanks ranks = new GpuRanks(2, DEADLINE);
        DirectRanks windows = new DirectRanks(ranks, most)) {
      for (int rank = 0; rank < 2; rank++) {
        ranks.setEngineLaunches(rank, launchesBefore);
      }
      for (int round = 0; round < 3; round++) {
        DirectGpuTest.check(
            ranks,
            windows,
            new DirectGpuTest.Kind(Operation.ALL_REDUCE, Algorithm.COPY_ENGINE),
            DataType.FLOAT32,
            RedOp.SUM,
            (most >> 3) + 1001,
            random,
            0,
            /* mostBlocks= */ 12);
      }
    }
  }

  private final List<CudaGraph> graphs = new ArrayList<>();

  /** The sum of the send buffers into the receive buffers, and from there half each to both. */
  private static void sumAndExchange(
      GpuRanks ranks, DirectRanks windows, int rank, int count, int blocks) {
    launch(ranks, windows, rank, Operation.ALL_REDUCE, count, blocks, false);
    launch(ranks, windows, rank, Operation.ALL_GATHER, count / 2, blocks, true);
  }

  private static void launch(
      GpuRanks ranks,
      DirectRanks windows,
      int rank,
      Operation operation,
      int count,
      int blocks,
      boolean back) {
    var communicator = ranks.communicators.get(rank);
    var send = back ? windows.recvs : windows.sends;
    var recv = back ? windows.sends : windows.recvs;
    WindowWork work =
        new WindowWork(
            operation,
            Algorithm.COPY_ENGINE,
            DataType.INT32,
            RedOp.SUM,
            0,
            count,
            Algorithm.COPY_ENGINE.needsSend(operation) ? send.get(rank) : null,
            recv.get(rank),
            0,
            blocks,
            /* apart= */ false);
    List<DeviceMemory> from = back ? windows.recv : windows.send;
    List<DeviceMemory> to = back ? windows.send : windows.recv;
    communicator.launch(
        communicator.prepare(work), from.get(rank), to.get(rank), ranks.streams.get(rank));
  }

  private static ByteBuffer ints(int count, int value) {
    ByteBuffer data = ByteBuffer.allocateDirect(4 * count).order(ByteOrder.nativeOrder());
    while (data.hasRemaining()) {
      data.putInt(value);
    }
    return data.flip();
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 12})
  void aMissingRankIsATimeoutAndTheStreamBesideEnds(int blocks) {
    for (Operation operation : List.of(Operation.ALL_REDUCE, Operation.ALL_GATHER)) {
      try (GpuRanks ranks = new GpuRanks(2, Duration.ofMillis(300));
          DirectRanks windows = new DirectRanks(ranks, 8 << 20)) {
        launch(ranks, windows, 0, operation, 1 << 20, blocks, false);
        var error = assertThrows(TimeoutException.class, () -> ranks.streams.get(0).synchronize());
        assertTrue(error.problem().contains("of rank 1"), error.problem());
      }
    }
  }
}
