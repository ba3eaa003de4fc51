package org.nccl4j.it.perf.rank;

import java.io.OutputStream;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.Workload;
import org.nccl4j.it.run.Placement;

/**
 * Random operations on all GPUs through the engine, each on fresh data in poisoned buffers,
 * compared with what the host computes: as threads, as processes, several communicators at once,
 * and beyond 4 GiB.
 */
@Tag("gpu")
@Timeout(600)
class RandomOperationsGpuTest {
  private static final int MOST_BYTES = 1 << 20;
  private static final long SEED = Long.getLong("nccl4j.seed", 1);

  private final int gpus = Devices.cuda().list().size();

  private RankSpec spec(long bytes) {
    return new RankSpec(0, gpus, 1, bytes, Device.Kind.CUDA, "", RegistrationMode.NOT);
  }

  private static void join(Ranks ranks, String id) {
    ranks.all(
        new Command.Join(id, Map.of(), List.of(), 20, CoreBinding.Time.NEVER),
        RandomCells.PATIENCE);
  }

  private Cell random(Random random) {
    Workload workload;
    do {
      workload = Workload.values()[random.nextInt(Workload.values().length)];
    } while (!workload.refusal(gpus).isEmpty());
    return RandomCells.next(random, workload, gpus, MOST_BYTES);
  }

  private void operations(Ranks ranks, int count, long seed) {
    Random random = new Random(seed);
    for (int i = 0; i < count; i++) {
      RandomCells.check(ranks, random(random), i);
    }
  }

  @Test
  void tenThousandAsThreads() {
    System.out.println("seed " + SEED);
    try (Ranks ranks = ThreadRanks.start(spec(MOST_BYTES))) {
      join(ranks, "threads");
      operations(ranks, 10_000, SEED);
    }
  }

  @Test
  void aThousandAsProcesses() {
    System.out.println("seed " + SEED);
    PrintWriter err =
        new PrintWriter(OutputStream.nullOutputStream(), true, StandardCharsets.UTF_8);
    try (Ranks ranks = ProcessRanks.start(spec(MOST_BYTES), Placement.HERE, err)) {
      Reply id = ranks.one(0, new Command.CreateId(Library.OURS), RandomCells.PATIENCE);
      join(ranks, ((Reply.Text) id).text());
      operations(ranks, 1000, SEED);
    }
  }

  @Test
  void twoCommunicatorsAtOnce() throws Exception {
    ExecutorService threads = Executors.newFixedThreadPool(2);
    List<Future<?>> done = new ArrayList<>();
    for (int which = 0; which < 2; which++) {
      long seed = SEED + which;
      done.add(
          threads.submit(
              () -> {
                try (Ranks ranks = ThreadRanks.start(spec(MOST_BYTES))) {
                  join(ranks, "one of two");
                  operations(ranks, 1500, seed);
                }
              }));
    }
    for (Future<?> each : done) {
      each.get();
    }
    threads.shutdown();
  }

  @Test
  void beyondFourGibibytes() {
    long bytes = (1L << 32) + (12 << 20) + 4;
    try (Ranks ranks = ThreadRanks.start(spec(bytes))) {
      join(ranks, "large");
      for (Workload workload :
          List.of(
              Workload.ALL_REDUCE,
              Workload.ALL_GATHER,
              Workload.REDUCE_SCATTER,
              Workload.BROADCAST,
              Workload.ALL_TO_ALL,
              Workload.SEND_RECV)) {
        RandomCells.check(ranks, new Cell(workload, DataType.UINT8, RedOp.SUM, 0, bytes, false), 1);
      }
    }
  }
}
