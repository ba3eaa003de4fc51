package org.nccl4j.it.perf.rank;

import java.util.Arrays;
import java.util.function.IntSupplier;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.cuda.ComputingKernel;
import org.nccl4j.device.cuda.CudaDevice;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.it.perf.workload.PreparedCall;

/**
 * Times of operations and of a computing kernel, alone and at the same time, on one rank's GPU. The
 * computation is launched first, as that of a training step is; the operations' stream has a higher
 * priority. Used by one thread.
 */
final class OverlapTimer implements AutoCloseable {
  private static final int ROUNDS = 5;
  private static final int CALIBRATION_WAVES = 40;

  private final Runnable awaitOthers;
  private final ComputingKernel kernel;
  private final CudaStream stream;
  private final Span computation;
  private final Span operations;
  private final int multiprocessors;
  private final double waveMicros;

  /** The time between two events of a stream. */
  private static final class Span implements AutoCloseable {
    private final DeviceStream stream;
    private final DeviceEvent begin;
    private final DeviceEvent end;

    Span(CudaDevice device, DeviceStream stream) {
      this.stream = stream;
      begin = device.createEvent();
      end = device.createEvent();
    }

    void record(Runnable launches) {
      stream.record(begin);
      launches.run();
      stream.record(end);
    }

    double micros() {
      end.synchronize();
      return end.microsecondsSince(begin);
    }

    @Override
    public void close() {
      begin.close();
      end.close();
    }
  }

  /**
   * A timer for a rank.
   *
   * @param awaitOthers returns once every rank has called it
   */
  OverlapTimer(RankLane lane, Runnable awaitOthers) {
    this.awaitOthers = awaitOthers;
    CudaDevice device = (CudaDevice) lane.device();
    kernel = new ComputingKernel(device);
    stream = (CudaStream) device.createStream();
    computation = new Span(device, stream);
    operations = new Span(device, lane.stream());
    multiprocessors = device.multiprocessors();
    compute(1);
    waveMicros = compute(CALIBRATION_WAVES) / CALIBRATION_WAVES;
  }

  private double compute(int waves) {
    computation.record(() -> kernel.launch(stream, waves * multiprocessors));
    return computation.micros();
  }

  /**
   * Measures; the median of rounds.
   *
   * @param calls of the operation
   * @param micros of the computation
   * @param blocks of the operation that was launched last
   */
  Reply.Overlapped measure(PreparedCall operation, int calls, double micros, IntSupplier blocks) {
    int waves = (int) Math.max(1, Math.round(micros / waveMicros));
    Runnable computes = () -> kernel.launch(stream, waves * multiprocessors);
    Runnable communicates =
        () -> {
          for (int call = 0; call < calls; call++) {
            operation.launch();
          }
        };
    double[][] times = new double[4][ROUNDS];
    int used = 0;
    for (int round = -1; round < ROUNDS; round++) { // the first warms up
      int at = Math.max(0, round);
      awaitOthers.run();
      computation.record(computes);
      times[0][at] = computation.micros();
      awaitOthers.run();
      operations.record(communicates);
      used = blocks.getAsInt();
      times[1][at] = operations.micros();
      awaitOthers.run();
      computation.record(computes);
      operations.record(communicates);
      times[2][at] = computation.micros();
      times[3][at] = operations.micros();
    }
    for (double[] each : times) {
      Arrays.sort(each);
    }
    int middle = ROUNDS / 2;
    return new Reply.Overlapped(
        times[0][middle],
        times[1][middle] / calls,
        times[2][middle],
        times[3][middle] / calls,
        used);
  }

  @Override
  public void close() {
    computation.close();
    operations.close();
    stream.close();
  }
}
