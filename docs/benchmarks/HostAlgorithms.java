import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.perf.rank.CoreBinding;
import org.nccl4j.it.perf.rank.RankSpec;
import org.nccl4j.operation.Operation;

/**
 * Times of an operation of two threads by one algorithm, in bursts of about 0.3 ms: also on a busy
 * machine both ranks have their cores in some of them. Prints the 5th and the 25th percentile.
 */
public final class HostAlgorithms {
  private static final AtomicLong ARRIVED = new AtomicLong();

  private final Operation operation;
  private final boolean inPlace;
  private final int rounds;

  private HostAlgorithms(Operation operation, boolean inPlace, int rounds) {
    this.operation = operation;
    this.inPlace = inPlace;
    this.rounds = rounds;
  }

  /** Arguments: operation, least and most bytes, factor, rounds, ALGORITHM:PROTOCOL, [in]. */
  public static void main(String[] arguments) throws Exception {
    HostAlgorithms measured =
        new HostAlgorithms(
            Operation.valueOf(arguments[0]), arguments.length > 6, Integer.parseInt(arguments[4]));
    String[] way = arguments[5].split(":");
    CommunicatorConfig config =
        CommunicatorConfig.defaults().with("NCCL_ALGO", way[0]).with("NCCL_PROTO", way[1]);
    List<Communicator> ranks =
        Communicator.initAll(List.of(Devices.host(), Devices.host()), config);
    long most = Long.parseLong(arguments[2]);
    List<Thread> threads = new ArrayList<>();
    for (Communicator rank : ranks) {
      Runnable task =
          () -> {
            CoreBinding.bind(RankSpec.host(rank.rank(), 2, 8));
            DeviceMemory send = Devices.host().memAlloc(most);
            DeviceMemory recv = measured.inPlace ? send : Devices.host().memAlloc(most);
            DeviceStream stream = Devices.host().createStream();
            for (long bytes = Long.parseLong(arguments[1]);
                bytes <= most;
                bytes *= Integer.parseInt(arguments[3])) {
              double[] times = measured.times(rank, send, recv, bytes, stream);
              if (rank.rank() == 0) {
                System.out.printf(
                    "%s %s %d: %.2f %.2f us%n",
                    arguments[0],
                    arguments[5],
                    bytes,
                    times[times.length / 20],
                    times[times.length / 4]);
              }
            }
          };
      threads.add(new Thread(task));
    }
    threads.forEach(Thread::start);
    for (Thread thread : threads) {
      thread.join();
    }
    System.exit(0);
  }

  /** Microseconds of a call in each round, ascending. */
  private double[] times(
      Communicator rank, DeviceMemory send, DeviceMemory recv, long bytes, DeviceStream stream) {
    int burst = (int) Math.max(1, Math.min(400, 300_000 / Math.max(300, bytes / 10)));
    int warmUp = (int) Math.max(burst, Math.min(20_000, 400_000_000 / bytes));
    double[] times = new double[rounds];
    for (int round = -2; round < rounds; round++) {
      int calls = round < 0 ? warmUp : burst;
      awaitOther();
      long begin = System.nanoTime();
      for (int call = 0; call < calls; call++) {
        launch(rank, send, recv, bytes / 4, stream);
      }
      stream.synchronize();
      if (round >= 0) {
        times[round] = (System.nanoTime() - begin) / 1e3 / calls;
      }
    }
    Arrays.sort(times);
    return times;
  }

  private static void awaitOther() {
    long both = (ARRIVED.incrementAndGet() + 1) / 2 * 2;
    while (ARRIVED.get() < both) {
      Thread.onSpinWait();
    }
  }

  private void launch(
      Communicator rank, DeviceMemory send, DeviceMemory recv, long count, DeviceStream stream) {
    DataType type = DataType.FLOAT32;
    switch (operation) {
      case ALL_REDUCE -> rank.allReduce(send, recv, count, type, RedOp.SUM, stream);
      case ALL_GATHER -> rank.allGather(send, recv, count / 2, type, stream);
      case REDUCE_SCATTER -> rank.reduceScatter(send, recv, count / 2, type, RedOp.SUM, stream);
      case BROADCAST -> rank.broadcast(send, recv, count, type, 0, stream);
      case REDUCE -> rank.reduce(send, recv, count, type, RedOp.SUM, 0, stream);
      default -> throw new IllegalArgumentException(operation.label());
    }
  }
}
