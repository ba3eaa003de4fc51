package org.nccl4j.device.cuda;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/**
 * Times of the direct ways on this machine's GPUs, as lines for a file of measured costs: {@code
 * DirectTimes RANKS MOST_BYTES [graph|eager [WAY...]]}. For each size the best number of blocks is
 * looked for; the median of five rounds counts. Run by hand; results are checked by {@link
 * DirectGpuTest}.
 */
final class DirectTimes {
  private static final int[] BLOCKS = {1, 2, 4, 8, 16, 32, 64, 96, 128};
  private static final int ROUNDS = 5;
  private static final int FIRST = 5;

  private final GpuRanks ranks;
  private final DirectRanks windows;
  private final ExecutorService threads;
  private final boolean graph;

  private DirectTimes(int n, long most, boolean graph) {
    this.ranks = new GpuRanks(n, Duration.ofSeconds(5));
    this.windows = new DirectRanks(ranks, most);
    this.threads = Executors.newFixedThreadPool(n);
    this.graph = graph;
  }

  public static void main(String[] arguments) throws Exception {
    int n = Integer.parseInt(arguments[0]);
    long most = Long.parseLong(arguments[1]);
    boolean graph = arguments.length > 2 && arguments[2].equals("graph");
    DirectTimes times = new DirectTimes(n, most, graph);
    for (Operation operation :
        List.of(
            Operation.ALL_REDUCE,
            Operation.ALL_GATHER,
            Operation.REDUCE_SCATTER,
            Operation.ALL_TO_ALL,
            Operation.REDUCE,
            Operation.BROADCAST)) {
      for (Algorithm way : Algorithm.betweenWindows()) {
        if (arguments.length < 4
            || List.of(arguments).subList(3, arguments.length).contains(way.label())) {
          times.line(operation, way, most);
        }
      }
    }
    System.exit(0);
  }

  private void line(Operation operation, Algorithm way, long most) throws Exception {
    boolean reduce = operation == Operation.REDUCE;
    boolean broadcast = operation == Operation.BROADCAST;
    boolean all = operation == Operation.ALL_REDUCE || reduce || broadcast;
    boolean copies =
        way == Algorithm.COPY_ENGINE
            || way == Algorithm.COPY_ENGINE_BATCH
            || way == Algorithm.COPY_ENGINE_STREAM;
    boolean exists =
        switch (way) {
          case DIRECT_LL, DIRECT_LL128 -> true;
          case DIRECT_ONE_SHOT -> !broadcast;
          case DIRECT_TWO_SHOT -> operation == Operation.ALL_REDUCE;
          case COPY_ENGINE, COPY_ENGINE_BATCH, COPY_ENGINE_STREAM ->
              ranks.n == 2
                      && way == Algorithm.COPY_ENGINE
                      && (operation == Operation.REDUCE_SCATTER
                          || operation == Operation.ALL_REDUCE)
                  || (!graph || way != Algorithm.COPY_ENGINE_STREAM)
                      && (operation == Operation.ALL_GATHER
                          || operation == Operation.ALL_TO_ALL
                          || operation == Operation.BROADCAST && ranks.n == 2);
          default -> false;
        };
    if (!exists) {
      return;
    }
    int n = ranks.n;
    StringBuilder line = new StringBuilder("%d %s %s".formatted(n, operation, way.label()));
    long least = way == Algorithm.DIRECT_LL ? 8 : copies ? 4 << 20 : 8 << 10;
    long limit = way.isLines() ? CudaDevice.lineData(n, way) : graph ? 64 << 20 : most;
    for (long total = 8; total <= limit * (all ? 1 : n); total *= 4) {
      long bytes = all ? total : total / n;
      if (bytes < least || bytes > limit || bytes % 4 != 0 || total > most) {
        continue;
      }
      double best = Double.MAX_VALUE;
      int with = 0;
      for (int blocks : BLOCKS) {
        boolean sensible =
            copies
                ? blocks == 1
                : bytes / blocks >= (way == Algorithm.DIRECT_LL ? 1024 : 2048) || blocks == 1;
        if (sensible && bytes / blocks <= 8 << 20 && !(bytes > 64 << 10 && blocks < 4)
            || copies && blocks == 1) {
          double time = time(operation, way, bytes, blocks);
          if (time < best) {
            best = time;
            with = blocks;
          }
        }
      }
      line.append(" %d:%.2f:%d".formatted(bytes, best, with));
    }
    System.out.println(line);
  }

  private double time(Operation operation, Algorithm way, long bytes, int blocks) throws Exception {
    List<KernelPlan> plans = new ArrayList<>();
    for (int rank = 0; rank < ranks.n; rank++) {
      plans.add(
          ranks
              .communicators
              .get(rank)
              .prepare(
                  new WindowWork(
                      operation,
                      way,
                      DataType.FLOAT32,
                      RedOp.SUM,
                      0,
                      bytes / 4,
                      way.needsSend(operation) ? windows.sends.get(rank) : null,
                      way.needsRecv(operation) ? windows.recvs.get(rank) : null,
                      blocks)));
    }
    int iterations = (int) Math.max(5, Math.min(300, (64L << 20) / Math.max(1, bytes)));
    round(plans, 5);
    double[] times = new double[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
      times[round] = round(plans, iterations);
    }
    Arrays.sort(times);
    return times[ROUNDS / 2];
  }

  private double round(List<KernelPlan> plans, int iterations) throws Exception {
    List<Future<Double>> futures = new ArrayList<>();
    for (int rank = 0; rank < ranks.n; rank++) {
      int mine = rank;
      futures.add(threads.submit(() -> launches(mine, plans.get(mine), iterations)));
    }
    double most = 0;
    for (Future<Double> future : futures) {
      most = Math.max(most, future.get());
    }
    return most;
  }

  private double launches(int rank, KernelPlan plan, int iterations) {
    CudaStream stream = ranks.streams.get(rank);
    var communicator = ranks.communicators.get(rank);
    CudaGraph captured = null;
    if (graph) {
      stream.beginCapture();
      for (int i = 0; i < 10; i++) {
        communicator.launch(plan, windows.send.get(rank), windows.recv.get(rank), stream);
      }
      captured = stream.endCapture();
    }
    int launches = graph ? Math.max(1, iterations / 10) : iterations;
    try (DeviceEvent start = ranks.devices.get(rank).createEvent();
        DeviceEvent end = ranks.devices.get(rank).createEvent()) {
      // The clock starts behind operations of all ranks, so that no rank counts what it waits for
      // one
      // whose thread began later.
      for (int i = -FIRST; i < launches; i++) {
        if (i == 0) {
          stream.record(start);
        }
        if (captured != null) {
          captured.launch(stream);
        } else {
          communicator.launch(plan, windows.send.get(rank), windows.recv.get(rank), stream);
        }
      }
      stream.record(end);
      stream.synchronize();
      return end.microsecondsSince(start) / (launches * (graph ? 10 : 1));
    } finally {
      if (captured != null) {
        captured.close();
      }
    }
  }
}
