package org.nccl4j.it.perf.rank;

import java.util.List;
import java.util.function.Function;
import org.nccl4j.api.Communicator;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.PreparedCall;
import org.nccl4j.it.perf.workload.Workload;

/**
 * The costs of one library's communicators for a rank: time to create and to close them, device
 * memory, and the calling thread's time for an operation. Contexts and buffers are there before.
 * All ranks do it at the same time.
 */
final class CommunicatorCosts {
  private static final long REDUCED = 64 << 20;
  private static final int CALLS = 200;

  /** The JVM compiles for good what it has run 15,000 times or so; a call is warm after that. */
  private static final int ROUNDS = 150;

  private final RankLane lane;

  CommunicatorCosts(RankLane lane) {
    this.lane = lane;
  }

  /** A communicator, as far as this needs it. */
  interface Made extends AutoCloseable {
    PreparedCall operation(Cell cell);

    @Override
    void close();
  }

  /** One of ours. */
  static Made ours(RankLane lane, Communicator communicator) {
    return new Made() {
      @Override
      public PreparedCall operation(Cell cell) {
        return lane.buffers().unprepared(communicator, lane.stream(), cell);
      }

      @Override
      public void close() {
        communicator.close();
      }
    };
  }

  /** One of libnccl's. */
  static Made theirs(NcclRank communicator) {
    return new Made() {
      @Override
      public PreparedCall operation(Cell cell) {
        return communicator.operation(cell);
      }

      @Override
      public void close() {
        communicator.close();
      }
    };
  }

  /**
   * Measures.
   *
   * @param join makes a communicator for an id
   * @param uniqueIds two
   */
  Reply.Costs measure(Function<String, Made> join, List<String> uniqueIds) {
    CudaDevice device = (CudaDevice) lane.device();
    long free = device.memoryInfo()[0];
    long start = System.nanoTime();
    Made first = join.apply(uniqueIds.get(0));
    double firstMillis = millisSince(start);
    long created = free - device.memoryInfo()[0];
    long largest = Math.min(REDUCED, lane.spec().bufferBytes()) / 4;
    run(first, new Cell(Workload.ALL_REDUCE, DataType.FLOAT32, RedOp.SUM, 0, largest, true));
    run(first, new Cell(Workload.ALL_TO_ALL, DataType.FLOAT32, RedOp.SUM, 0, largest, false));
    long used = free - device.memoryInfo()[0];
    double callMicros = callMicros(first);
    start = System.nanoTime();
    Made second = join.apply(uniqueIds.get(1));
    double laterMillis = millisSince(start);
    run(second, small());
    start = System.nanoTime();
    second.close();
    double closeMillis = millisSince(start);
    first.close();
    return new Reply.Costs(firstMillis, laterMillis, closeMillis, created, used, callMicros);
  }

  private static Cell small() {
    return new Cell(Workload.ALL_REDUCE, DataType.FLOAT32, RedOp.SUM, 0, 2, false);
  }

  private void run(Made communicator, Cell cell) {
    communicator.operation(cell).launch();
    lane.stream().synchronize();
  }

  /** The least of several rounds, each shorter than what a stream takes without waiting. */
  private double callMicros(Made communicator) {
    PreparedCall operation = communicator.operation(small());
    double least = Double.MAX_VALUE;
    for (int round = 0; round < ROUNDS; round++) {
      long start = System.nanoTime();
      for (int i = 0; i < CALLS; i++) {
        operation.launch();
      }
      least = Math.min(least, (System.nanoTime() - start) / 1e3 / CALLS);
      lane.stream().synchronize();
    }
    return least;
  }

  private static double millisSince(long start) {
    return (System.nanoTime() - start) / 1e6;
  }
}
