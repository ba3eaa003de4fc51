package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.function.Function;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Group;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaDevices;

/** Splits that use the connections of what they were split from, on GPUs. Needs GPUs. */
@Tag("gpu")
class SharedSplitGpuTest {
  private static final long SEED = Long.getLong("seed", System.nanoTime());
  private static final int MOST_COUNT = 40_000;
  private static final Executor THREADS = task -> new Thread(task).start();

  private static CommunicatorConfig config(int seconds) {
    return CommunicatorConfig.defaults()
        .withOperationDeadline(Duration.ofSeconds(seconds))
        .withMaxCtas(16)
        .with("NCCL_MULTI_RANK_GPU_ENABLE", "1");
  }

  /** Ranks on all GPUs by turns. */
  private static List<Communicator> ranks(int n, int seconds) {
    List<CudaDevice> gpus = CudaDevices.probe().list();
    List<Device> devices = new ArrayList<>();
    for (int rank = 0; rank < n; rank++) {
      devices.add(gpus.get(rank % gpus.size()));
    }
    return Communicator.initAll(devices, config(seconds));
  }

  /** Something on each rank, each on a thread. */
  private static <T> List<T> all(List<Communicator> ranks, Function<Communicator, T> what) {
    return ranks.stream()
        .map(rank -> CompletableFuture.supplyAsync(() -> what.apply(rank), THREADS))
        .toList()
        .stream()
        .map(CompletableFuture::join)
        .toList();
  }

  /** A thread a rank, of which each has a GPU to itself. */
  @Test
  void operationsTakeTurnsOnTheConnections() {
    System.out.println("seed " + SEED);
    List<Communicator> ranks = ranks(CudaDevices.probe().list().size() >= 4 ? 4 : 2, 20);
    all(
        ranks,
        rank -> {
          try (SplitProgram program = new SplitProgram(rank, MOST_COUNT, SEED)) {
            assertEquals(0, program.heldBySplits());
            for (int round = 0; round < 12; round++) {
              program.batch();
              program.graphs();
            }
          }
          return 0;
        });
    ranks.forEach(Communicator::close);
  }

  /** Also ranks that have a GPU in common. */
  @Test
  void oneThreadDrivesAllRanks() {
    System.out.println("seed " + SEED);
    List<Communicator> ranks = ranks(4, 20);
    List<SplitProgram> programs = all(ranks, rank -> new SplitProgram(rank, MOST_COUNT, SEED));
    for (int round = 0; round < 40; round++) {
      List<List<Runnable>> steps = programs.stream().map(SplitProgram::grouped).toList();
      Group.run(() -> steps.forEach(step -> step.get(0).run()));
      steps.forEach(step -> step.get(1).run());
    }
    programs.forEach(SplitProgram::close);
    ranks.forEach(Communicator::close);
  }

  @Test
  void aSplitTakesNoMemoryOfTheGpu() {
    List<Communicator> ranks = ranks(CudaDevices.probe().list().size(), 20);
    CudaDevice gpu = CudaDevices.probe().device(0);
    Map<String, Long> held = ranks.get(0).memory();
    long before = gpu.memoryInfo()[0];
    CommunicatorConfig share = CommunicatorConfig.defaults().withSplitShare(true);
    List<List<Communicator>> splits = new ArrayList<>();
    for (int i = 0; i < 10; i++) {
      splits.add(all(ranks, rank -> rank.split(0, -rank.rank(), share).orElseThrow()));
    }
    assertEquals(before, gpu.memoryInfo()[0]);
    assertEquals(held, ranks.get(0).memory());
    splits.forEach(split -> split.forEach(Communicator::close));
    ranks.forEach(Communicator::close);
  }

  @Test
  void whereOneRankStaysAwayAllFail() {
    List<Communicator> ranks = ranks(CudaDevices.probe().list().size(), 1);
    CommunicatorConfig share = CommunicatorConfig.defaults().withSplitShare(true);
    List<Communicator> split = all(ranks, rank -> rank.split(0, 0, share).orElseThrow());
    try (DeviceMemory data = ranks.get(0).device().allocate(4000);
        DeviceStream stream = ranks.get(0).device().createStream();
        DeviceStream other = ranks.get(0).device().createStream()) {
      split.get(0).allReduce(data, data, 1000, DataType.FLOAT32, RedOp.SUM, stream);
      ranks.get(0).allReduce(data, data, 1000, DataType.FLOAT32, RedOp.SUM, other);
      NcclException error = assertThrows(NcclException.class, other::synchronize);
      assertTrue(error.getMessage().contains(split.get(0).name()), error.getMessage());
      assertThrows(NcclException.class, stream::synchronize);
    }
    split.forEach(comm -> comm.close(Duration.ofSeconds(5)));
    ranks.forEach(comm -> comm.close(Duration.ofSeconds(5)));
  }
}
