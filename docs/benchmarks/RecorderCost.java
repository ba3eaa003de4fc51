import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CyclicBarrier;
import jdk.jfr.Recording;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/**
 * What the flight recorder and Java Flight Recorder cost an all-reduce of two ranks, as threads: rounds
 * with and without them take turns in one process. Started by recorder-cost.sh, which builds a Launcher that
 * can leave the recorder out.
 */
public class RecorderCost {
  /** What is on in a round. */
  enum Mode {
    OFF,
    RECORDER,
    RECORDER_AND_JFR,
    EVERY_OPERATION
  }

  public static void main(String[] args) throws Exception {
    int bytes = Integer.parseInt(args[0]);
    int operations = Integer.parseInt(args[1]);
    int rounds = Integer.parseInt(args[2]);
    List<Communicator> ranks = Communicator.initAll(Collections.nCopies(2, Devices.host()));
    double[][] micros = new double[Mode.values().length][rounds];
    CyclicBarrier barrier = new CyclicBarrier(2);
    List<Thread> threads = new ArrayList<>();
    for (Communicator rank : ranks) {
      Thread thread =
          new Thread(
              () -> {
                try {
                  run(rank, bytes, operations, rounds, micros, barrier);
                } catch (Exception e) {
                  throw new IllegalStateException(e);
                }
              });
      threads.add(thread);
      thread.start();
    }
    for (Thread thread : threads) {
      thread.join();
    }
    double off = median(micros[0]);
    for (Mode mode : Mode.values()) {
      double median = median(micros[mode.ordinal()]);
      System.out.printf(
          "%d bytes, %s: median %.4f us, %+.2f %%%n", bytes, mode, median, 100 * (median / off - 1));
    }
    ranks.forEach(Communicator::close);
  }

  private static double median(double[] all) {
    double[] sorted = all.clone();
    Arrays.sort(sorted);
    return sorted[sorted.length / 2];
  }

  private static void run(
      Communicator rank,
      int bytes,
      int operations,
      int rounds,
      double[][] micros,
      CyclicBarrier barrier)
      throws Exception {
    Recording recording = null;
    try (DeviceStream stream = rank.device().createStream();
        DeviceMemory data = rank.device().allocate(bytes)) {
      data.write(0, ByteBuffer.allocateDirect(bytes).order(ByteOrder.nativeOrder()));
      for (int n = -2 * Mode.values().length; n < rounds * Mode.values().length; n++) {
        Mode mode = Mode.values()[Math.floorMod(n, Mode.values().length)];
        if (rank.rank() == 0) {
          recording = begin(mode);
        }
        barrier.await();
        reduce(rank, data, bytes, operations / 10 + 1, stream);
        barrier.await();
        long start = System.nanoTime();
        reduce(rank, data, bytes, operations, stream);
        double each = (System.nanoTime() - start) / 1e3 / operations;
        barrier.await();
        if (rank.rank() == 0) {
          if (n >= 0) {
            micros[mode.ordinal()][n / Mode.values().length] = each;
          }
          if (recording != null) {
            recording.close();
          }
        }
      }
    }
  }

  private static Recording begin(Mode mode) throws Exception {
    Class.forName("org.nccl4j.api.launch.Launcher")
        .getField("recording")
        .setBoolean(null, mode != Mode.OFF);
    Recording recording = null;
    if (mode.ordinal() >= Mode.RECORDER_AND_JFR.ordinal()) {
      recording = new Recording();
      if (mode == Mode.EVERY_OPERATION) {
        recording.enable("org.nccl4j.Operation");
      }
      recording.start();
    }
    // What starts or ends a recording is over by then, and the observer, which looks every 50 ms, has
    // seen whether operations are asked for. All modes wait alike.
    Thread.sleep(400);
    return recording;
  }

  private static void reduce(
      Communicator rank, DeviceMemory data, int bytes, int times, DeviceStream stream) {
    for (int n = 0; n < times; n++) {
      rank.allReduce(data, data, bytes / 4, DataType.FLOAT32, RedOp.MAX, stream);
      stream.synchronize();
    }
  }
}
