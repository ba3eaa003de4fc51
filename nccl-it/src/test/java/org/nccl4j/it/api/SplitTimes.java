package org.nccl4j.it.api;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.cuda.CudaDevice;

/**
 * The costs of a split of all GPUs with and without shared connections: milliseconds and memory to
 * make it, and microseconds of its all-reduces, launched back to back by a thread a rank.
 */
final class SplitTimes {
  private static final int SPLITS = 5;
  private static final int LAUNCHES = 2000;
  private static final int ROUNDS = 5;

  private final List<Communicator> ranks;
  private final ExecutorService threads;

  private SplitTimes(List<Communicator> ranks) {
    this.ranks = ranks;
    threads = Executors.newFixedThreadPool(ranks.size());
  }

  private interface Step<T> {
    T of(int rank) throws Exception;
  }

  private <T> List<T> all(Step<T> step) throws Exception {
    List<Callable<T>> calls = new ArrayList<>();
    for (int rank = 0; rank < ranks.size(); rank++) {
      int own = rank;
      calls.add(() -> step.of(own));
    }
    List<T> results = new ArrayList<>();
    for (Future<T> result : threads.invokeAll(calls)) {
      results.add(result.get());
    }
    return results;
  }

  private List<Communicator> split(boolean share) throws Exception {
    CommunicatorConfig config = CommunicatorConfig.defaults().withSplitShare(share);
    return all(rank -> ranks.get(rank).split(0, rank, config).orElseThrow());
  }

  private void creation(boolean share) throws Exception {
    CudaDevice gpu = Devices.cuda().device(0);
    long before = gpu.memoryInfo()[0];
    double[] millis = new double[SPLITS];
    List<List<Communicator>> made = new ArrayList<>();
    for (int i = 0; i < SPLITS; i++) {
      long start = System.nanoTime();
      made.add(split(share));
      millis[i] = (System.nanoTime() - start) / 1e6;
    }
    double mib = (before - gpu.memoryInfo()[0]) / 1048576.0 / SPLITS;
    Arrays.sort(millis);
    System.out.printf(
        "share=%b: split in %.2f ms (median of %d), %.1f MiB of GPU 0 each%n",
        share, millis[SPLITS / 2], SPLITS, mib);
    made.forEach(split -> split.forEach(Communicator::close));
  }

  private double micros(List<Communicator> of, int bytes) throws Exception {
    double[] micros = new double[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
      micros[round] = all(rank -> launches(of.get(rank), bytes)).get(0);
    }
    Arrays.sort(micros);
    return micros[ROUNDS / 2];
  }

  private static double launches(Communicator comm, int bytes) {
    try (DeviceMemory data = comm.device().allocate(bytes);
        DeviceStream stream = comm.device().createStream()) {
      long start = 0;
      for (int i = -LAUNCHES / 10; i < LAUNCHES; i++) {
        if (i == 0) {
          stream.synchronize();
          start = System.nanoTime();
        }
        comm.allReduce(data, data, bytes / 4, DataType.FLOAT32, RedOp.SUM, stream);
      }
      stream.synchronize();
      return (System.nanoTime() - start) / 1e3 / LAUNCHES;
    }
  }

  /** No arguments. */
  public static void main(String[] arguments) throws Exception {
    List<Device> gpus = List.copyOf(Devices.cuda().list());
    SplitTimes times = new SplitTimes(Communicator.initAll(gpus));
    for (boolean share : new boolean[] {true, false, true, false}) {
      times.creation(share);
    }
    System.out.println("bytes  parent before  own split  parent shared  shared split");
    int[] sizes = {8, 1024, 8192, 65536, 1 << 20};
    double[] before = new double[sizes.length];
    double[] own = new double[sizes.length];
    List<Communicator> ownSplit = times.split(false);
    for (int i = 0; i < sizes.length; i++) {
      before[i] = times.micros(times.ranks, sizes[i]);
      own[i] = times.micros(ownSplit, sizes[i]);
    }
    List<Communicator> shared = times.split(true);
    for (int i = 0; i < sizes.length; i++) {
      System.out.printf(
          "%d  %.2f  %.2f  %.2f  %.2f us%n",
          sizes[i],
          before[i],
          own[i],
          times.micros(times.ranks, sizes[i]),
          times.micros(shared, sizes[i]));
    }
    shared.forEach(Communicator::close);
    ownSplit.forEach(Communicator::close);
    times.ranks.forEach(Communicator::close);
    times.threads.shutdown();
  }
}
