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
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Operation;

/**
 * Times of broadcast and reduce by rings and trees, and of all-gather and reduce-scatter by rings
 * and PAT, among ranks of this process on the host device that say they are on several hosts:
 * {@code TreeTimes PLACEMENT [OPERATION:ALGORITHM,...] [BYTES...]}, with a letter for each rank,
 * those with the same on one host, and the bytes of the whole data. An operation with algorithms,
 * such as {@code ALL_REDUCE:Ring,Tree}, replaces those above. The algorithms take turns, on the
 * same connections. Each call begins at the rank at which the ring of the one before ends, so that
 * it waits for that one. Medians of nine rounds by the clock of rank 0, and the medians of the
 * rounds' ratios, first / other. Run by hand; {@link RootedTreeTest} and others check.
 */
final class TreeTimes {
  private static final int ROUNDS = 9;
  private static final int WARM_UP = 2;
  private static final int MOST_CALLS = 60;

  /** Bytes of all calls of a round, unless it is of few calls. */
  private static final int ROUND_BYTES = 2_000_000;

  private static final int FEWEST_CALLS = 4;
  private static final double NANOS_PER_MICRO = 1e3;

  private static final List<String> COMPARED =
      List.of(
          "BROADCAST:Ring,Tree",
          "REDUCE:Ring,Tree",
          "ALL_GATHER:Ring,PAT",
          "REDUCE_SCATTER:Ring,PAT");

  private TreeTimes() {}

  public static void main(String[] arguments) throws Exception {
    List<String> rest = Arrays.asList(arguments).subList(1, arguments.length);
    List<String> named = rest.stream().filter(each -> each.contains(":")).toList();
    int[] given =
        rest.stream().filter(each -> !each.contains(":")).mapToInt(Integer::parseInt).toArray();
    int[] sizes = given.length > 0 ? given : new int[] {8, 4096, 65536, 1048576};
    try (Ranks ranks = Ranks.onHosts(arguments[0], CommunicatorConfig.defaults())) {
      for (String compared : named.isEmpty() ? COMPARED : named) {
        Operation operation = Operation.valueOf(compared.split(":")[0]);
        List<String> names = List.of(compared.split(":")[1].split(","));
        for (int bytes : sizes) {
          CyclicBarrier barrier = new CyclicBarrier(ranks.communicators.size());
          ranks.run((comm, stream) -> measure(operation, names, comm, stream, bytes, barrier));
        }
      }
    }
    System.exit(0);
  }

  private static void measure(
      Operation operation,
      List<String> names,
      Communicator comm,
      DeviceStream stream,
      int bytes,
      CyclicBarrier barrier)
      throws Exception {
    List<Communicator> ways =
        names.stream()
            .map(way -> comm.withOptions(CallOptions.defaults().withAlgorithm(way)))
            .toList();
    int calls = Math.max(FEWEST_CALLS, Math.min(MOST_CALLS, ROUND_BYTES / bytes));
    double[][] times = new double[ways.size()][ROUNDS];
    double[][] ratios = new double[ways.size()][ROUNDS];
    try (DeviceMemory send = Devices.host().allocate(Math.max(bytes, comm.nRanks()));
        DeviceMemory recv = Devices.host().allocate(Math.max(bytes, comm.nRanks()))) {
      for (int round = -WARM_UP; round < ROUNDS; round++) {
        int at = Math.max(0, round);
        for (int way = 0; way < ways.size(); way++) {
          barrier.await();
          long start = System.nanoTime();
          for (int call = 0; call < calls; call++) {
            launch(operation, ways.get(way), send, recv, bytes, call, stream);
            stream.synchronize();
          }
          barrier.await();
          times[way][at] = (System.nanoTime() - start) / NANOS_PER_MICRO / calls;
        }
        for (int way = 0; way < ways.size(); way++) {
          ratios[way][at] = times[0][at] / times[way][at];
        }
      }
    }
    if (comm.rank() == 0) {
      StringBuilder line = new StringBuilder();
      for (int way = 0; way < ways.size(); way++) {
        line.append(
            String.format(
                Locale.ROOT,
                " %s %.0f us, ratio %.2f,",
                names.get(way),
                median(times[way]),
                median(ratios[way])));
      }
      System.out.printf(
          Locale.ROOT,
          "%s of %d ranks, %d bytes:%s chosen %s%n",
          operation.label(),
          comm.nRanks(),
          bytes,
          line,
          comm.chosenAlgorithm(operation, count(operation, bytes, comm.nRanks()), DataType.INT8));
    }
  }

  /** Elements of a call, of one byte each. */
  private static int count(Operation operation, int bytes, int nRanks) {
    return operation.wholes(nRanks) == 1 ? bytes : Math.max(1, bytes / nRanks);
  }

  private static void launch(
      Operation operation,
      Communicator way,
      DeviceMemory send,
      DeviceMemory recv,
      int bytes,
      int call,
      DeviceStream stream) {
    int count = count(operation, bytes, way.nRanks());
    int root = way.nRanks() - 1 - call % way.nRanks();
    switch (operation) {
      case BROADCAST -> way.broadcast(send, recv, count, DataType.INT8, root, stream);
      case REDUCE -> way.reduce(send, recv, count, DataType.INT8, RedOp.SUM, root, stream);
      case ALL_REDUCE -> way.allReduce(send, recv, count, DataType.INT8, RedOp.SUM, stream);
      case ALL_GATHER -> way.allGather(send, recv, count, DataType.INT8, stream);
      default -> way.reduceScatter(send, recv, count, DataType.INT8, RedOp.SUM, stream);
    }
  }

  private static double median(double[] all) {
    double[] sorted = all.clone();
    Arrays.sort(sorted);
    return sorted[sorted.length / 2];
  }
}
