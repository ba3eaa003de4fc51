package org.nccl4j.it.api;

import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CyclicBarrier;
import org.nccl4j.api.CallOptions;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;

/**
 * Times of all-to-alls pairwise and by rails, among ranks of this process on the host device that
 * say they are on several hosts: {@code RailTimes PLACEMENT [BLOCK_BYTES...]}, with a letter for
 * each rank, those with the same on one host. Both ways take turns, on the same connections.
 * Medians of nine rounds by the clock of rank 0, and the median of the rounds' ratios, pairwise /
 * rails. Run by hand; {@link AllToAllByRailsTest} checks.
 */
final class RailTimes {
  private static final int ROUNDS = 9;
  private static final int WARM_UP = 2;
  private static final int MOST_CALLS = 60;

  /** Bytes that a rank sends in a round, unless it is of few calls. */
  private static final int ROUND_BYTES = 2_000_000;

  private static final int FEWEST_CALLS = 3;
  private static final double NANOS_PER_MICRO = 1e3;
  private static final List<String> WAYS = List.of("^Rails", "Rails");

  private RailTimes() {}

  public static void main(String[] arguments) throws Exception {
    int[] blocks = Arrays.stream(arguments).skip(1).mapToInt(Integer::parseInt).toArray();
    try (Ranks ranks = Ranks.onHosts(arguments[0], CommunicatorConfig.defaults())) {
      for (int bytes : blocks.length > 0 ? blocks : new int[] {16, 1024, 16384}) {
        CyclicBarrier barrier = new CyclicBarrier(ranks.communicators.size());
        ranks.run((comm, stream) -> measure(comm, stream, bytes, barrier));
      }
    }
    System.exit(0);
  }

  private static void measure(
      Communicator comm, DeviceStream stream, int bytes, CyclicBarrier barrier) throws Exception {
    List<Communicator> ways =
        WAYS.stream()
            .map(way -> comm.withOptions(CallOptions.defaults().withAlgorithm(way)))
            .toList();
    int calls = Math.max(FEWEST_CALLS, Math.min(MOST_CALLS, ROUND_BYTES / bytes / comm.nRanks()));
    double[][] times = new double[WAYS.size()][ROUNDS];
    double[] ratios = new double[ROUNDS];
    try (DeviceMemory send = Devices.host().allocate((long) bytes * comm.nRanks());
        DeviceMemory recv = Devices.host().allocate((long) bytes * comm.nRanks())) {
      for (int round = -WARM_UP; round < ROUNDS; round++) {
        int at = Math.max(0, round);
        for (int way = 0; way < ways.size(); way++) {
          barrier.await();
          long start = System.nanoTime();
          for (int call = 0; call < calls; call++) {
            ways.get(way).allToAll(send, recv, bytes, DataType.INT8, stream);
            stream.synchronize();
          }
          barrier.await();
          times[way][at] = (System.nanoTime() - start) / NANOS_PER_MICRO / calls;
        }
        ratios[at] = times[0][at] / times[1][at];
      }
    }
    if (comm.rank() == 0) {
      System.out.printf(
          Locale.ROOT,
          "%d ranks, %d bytes: pairwise %.0f us, rails %.0f us, ratio %.2f%n",
          comm.nRanks(),
          bytes,
          median(times[0]),
          median(times[1]),
          median(ratios));
    }
  }

  private static double median(double[] all) {
    double[] sorted = all.clone();
    Arrays.sort(sorted);
    return sorted[sorted.length / 2];
  }
}
