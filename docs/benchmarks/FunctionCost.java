import java.nio.ByteOrder;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;

/**
 * All-reduces of two ranks of this process by a built-in sum, by a function that adds, and by the
 * same in the order of the ranks, by turns. Arguments: rounds, then sizes in bytes.
 */
public class FunctionCost {
  private static final long ROUND_NANOS = 30_000_000;

  private enum Way {
    BUILT_IN,
    FUNCTION,
    IN_ORDER
  }

  private static ReductionOperator sum(boolean inOrder) {
    var made =
        ReductionOperator.function(inOrder ? "sum in order" : "sum", DataType.FLOAT32)
            .onHost(FunctionCost::add);
    return (inOrder ? made.notCommutative() : made).build();
  }

  private static void add(
      ByteBuffer a, ByteBuffer b, ByteBuffer target, int count, DataType type) {
    for (int i = 0; i < 4 * count; i += 4) {
      target.putFloat(i, a.getFloat(i) + b.getFloat(i));
    }
  }

  private static final ReductionOperator FUNCTION = sum(false);
  private static final ReductionOperator IN_ORDER = sum(true);

  public static void main(String[] arguments) throws Exception {
    int rounds = Integer.parseInt(arguments[0]);
    int[] sizes = Arrays.stream(arguments).skip(1).mapToInt(Integer::parseInt).toArray();
    List<Communicator> ranks = Communicator.initAll(List.of(Devices.host(), Devices.host()));
    Thread second = new Thread(() -> new FunctionCost(ranks.get(1)).run(rounds, sizes));
    second.start();
    new FunctionCost(ranks.get(0)).run(rounds, sizes);
    second.join();
    ranks.forEach(Communicator::close);
  }

  private final Communicator comm;

  private FunctionCost(Communicator comm) {
    this.comm = comm;
  }

  private void run(int rounds, int[] sizes) {
    try (DeviceStream stream = comm.device().createStream()) {
      for (int bytes : sizes) {
        try (DeviceMemory data = comm.device().allocate(bytes)) {
          data.write(0, ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder()));
          measure(rounds, data, bytes / 4, stream);
        }
      }
    }
  }

  /** Both ranks must call equally often: as often as the first rank's last round allowed. */
  private void measure(int rounds, DeviceMemory data, int count, DeviceStream stream) {
    int[] times = {20, 20, 20};
    double[][] micros = new double[Way.values().length][rounds];
    for (int round = -rounds; round < rounds; round++) {
      for (Way way : Way.values()) {
        double each = call(way, times[way.ordinal()], data, count, stream);
        if (round >= 0) {
          micros[way.ordinal()][round] = each;
        }
        if (round == -rounds / 2) {
          times[way.ordinal()] = agreed(each, stream);
        }
      }
    }
    if (comm.rank() == 0) {
      System.out.printf("%d bytes:", 4 * count);
      for (Way way : Way.values()) {
        Arrays.sort(micros[way.ordinal()]);
        System.out.printf("  %s %.2f us", way, micros[way.ordinal()][rounds / 2]);
      }
      System.out.println();
    }
  }

  private int agreed(double micros, DeviceStream stream) {
    try (DeviceMemory number = comm.device().allocate(4)) {
      ByteBuffer own = ByteBuffer.allocateDirect(4).order(ByteOrder.nativeOrder());
      own.putInt(0, (int) Math.max(20, ROUND_NANOS / 1e3 / micros));
      number.write(0, own.duplicate().order(ByteOrder.nativeOrder()));
      comm.allReduce(number, number, 1, DataType.INT32, RedOp.MIN, stream);
      stream.synchronize();
      number.read(0, own.duplicate().order(ByteOrder.nativeOrder()));
      return own.getInt(0);
    }
  }

  private double call(Way way, int times, DeviceMemory data, int count, DeviceStream stream) {
    long begin = System.nanoTime();
    for (int n = 0; n < times; n++) {
      switch (way) {
        case BUILT_IN ->
            comm.allReduce(data, data, count, DataType.FLOAT32, RedOp.SUM, stream);
        case FUNCTION -> comm.allReduce(data, data, count, DataType.FLOAT32, FUNCTION, stream);
        default -> comm.allReduce(data, data, count, DataType.FLOAT32, IN_ORDER, stream);
      }
      stream.synchronize();
    }
    return (System.nanoTime() - begin) / 1e3 / times;
  }
}
