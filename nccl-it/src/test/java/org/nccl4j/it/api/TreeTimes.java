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
 * {@code TreeTimes PLACEMENT [BYTES...]}, with a letter for each rank, those with the same on one
 * host, and the bytes of the whole data. Both algorithms take turns, on the same connections. Each
 * call begins at the rank at which the ring of the one before ends, so that it waits for that one.
 * Medians of nine rounds by the clock of rank 0, and the median of the rounds' ratios, ring /
 * other. Run by hand; {@link RootedTreeTest} and {@link PatTest} check.
 */
final class TreeTimes {
  private static final int ROUNDS = 9;
  private static final int WARM_UP = 2;
  private static final int MOST_CALLS = 60;

  /** Bytes of all calls of a round, unless it is of few calls. */
  private static final int ROUND_BYTES = 2_000_000;

  private static final int FEWEST_CALLS = 4;
  private static final double NANOS_PER_MICRO = 1e3;

  private static final List<Operation> OPERATIONS =
      List.of(
          Operation.BROADCAST, Operation.REDUCE, Operation.ALL_GATHER, Operation.REDUCE_SCATTER);

  private TreeTimes() {}

  public static void main(String[] arguments) throws Exception {
    int[] sizes = Arrays.stream(arguments).skip(1).mapToInt(Integer::parseInt).toArray();
    try (Ranks ranks = Ranks.onHosts(arguments[0], CommunicatorConfig.defaults())) {
      for (Operation operation : OPERATIONS) {
        for (int bytes : sizes.length > 0 ? sizes : new int[] {8, 4096, 65536, 1048576}) {
          CyclicBarrier barrier = new CyclicBarrier(ranks.communicators.size());
          ranks.run((comm, stream) -> measure(operation, comm, stream, bytes, barrier));
        }
      }
    }
    System.exit(0);
  }

  private static void measure(
      Operation operation, Communicator comm, DeviceStream stream, int bytes, CyclicBarrier barrier)
      throws Exception {
    String other = operation.isRooted() ? "Tree" : "PAT";
    List<Communicator> ways =
        List.of("Ring", other).stream()
            .map(way -> comm.withOptions(CallOptions.defaults().withAlgorithm(way)))
            .toList();
    int calls = Math.max(FEWEST_CALLS, Math.min(MOST_CALLS, ROUND_BYTES / bytes));
    double[][] times = new double[ways.size()][ROUNDS];
    double[] ratios = new double[ROUNDS];
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
        ratios[at] = times[0][at] / times[1][at];
      }
    }
    if (comm.rank() == 0) {
      System.out.printf(
          Locale.ROOT,
          "%s of %d ranks, %d bytes: ring %.0f us, %s %.0f us, ratio %.2f, chosen %s%n",
          operation.label(),
          comm.nRanks(),
          bytes,
          median(times[0]),
          other,
          median(times[1]),
          median(ratios),
          comm.chosenAlgorithm(operation, count(operation, bytes, comm.nRanks()), DataType.INT8));
    }
  }

  /** Elements of a call, of one byte each. */
  private static int count(Operation operation, int bytes, int nRanks) {
    return operation.isRooted() ? bytes : Math.max(1, bytes / nRanks);
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
