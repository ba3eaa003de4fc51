import io.micrometer.core.instrument.FunctionTimer;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorMetrics;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/**
 * Cost of CommunicatorMetrics for all-reduces of one rank on a GPU, which are copies: loops without
 * and with them by turns, and how many operations they have counted as ended.
 *
 * <pre>
 *   classes=$(echo nccl-*&#47;target/classes nccl-it/target/modules/*.jar | tr ' ' ':'):MICROMETER_JARS
 *   javac -proc:none -d out -cp "$classes" docs/benchmarks/GpuMetrics.java
 *   java -cp "out:$classes" GpuMetrics 8 1048576 67108864
 * </pre>
 */
public final class GpuMetrics {
  private static final int TURNS = 120;
  private static final int WARM_UP = 20;
  private static final int PATIENCE_MILLIS = 2000;

  private GpuMetrics() {}

  /** Arguments: bytes of the data. */
  public static void main(String[] arguments) throws Exception {
    Device gpu = Devices.cuda().device(0);
    for (String argument : arguments) {
      long bytes = Long.parseLong(argument);
      int operations = bytes > 1 << 20 ? 100 : 500;
      try (Communicator comm = Communicator.initAll(List.of(gpu)).get(0);
          DeviceStream stream = gpu.createStream();
          DeviceMemory send = gpu.allocate(bytes);
          DeviceMemory recv = gpu.allocate(bytes)) {
        Runnable loop =
            () -> {
              for (int i = 0; i < operations; i++) {
                comm.allReduce(send, recv, bytes / 4, DataType.FLOAT32, RedOp.SUM, stream);
              }
              stream.synchronize();
            };
        List<Double> ratios = new ArrayList<>();
        long ended = 0;
        for (int turn = 0; turn < TURNS; turn++) {
          double without = time(loop);
          SimpleMeterRegistry registry = new SimpleMeterRegistry();
          try (CommunicatorMetrics metrics = new CommunicatorMetrics(comm)) {
            metrics.bindTo(registry);
            double with = time(loop);
            if (turn >= WARM_UP) {
              ratios.add(with / without);
            }
            for (int ms = 0; ms < PATIENCE_MILLIS && ended(registry) < operations; ms++) {
              Thread.sleep(1);
            }
            ended += ended(registry);
          }
        }
        Collections.sort(ratios);
        int n = ratios.size();
        System.out.printf(
            "%d bytes: with / without %.3f (quartiles %.3f and %.3f), ended %d of %d%n",
            bytes,
            ratios.get(n / 2),
            ratios.get(n / 4),
            ratios.get(3 * n / 4),
            ended,
            (long) TURNS * operations);
      }
    }
  }

  private static long ended(SimpleMeterRegistry registry) {
    FunctionTimer timer = registry.find("nccl4j.operation.time").functionTimer();
    return timer == null ? 0 : (long) timer.count();
  }

  private static double time(Runnable loop) {
    long begun = System.nanoTime();
    loop.run();
    return System.nanoTime() - begun;
  }
}
