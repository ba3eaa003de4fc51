package org.nccl4j.it.api;

import java.util.Arrays;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;

/**
 * Times of calls into a GPU's stream: medians of some rounds, in microseconds a call. All ranks do
 * the same at the same time.
 */
record StreamTimes(CudaStream stream, int rounds) {
  /**
   * By the host's clock, calls one after the other and a wait at the end.
   *
   * @param warmUp rounds before those that count
   * @param calls of a round
   */
  double inARow(int warmUp, int calls, Runnable call) {
    double[] times = new double[rounds];
    for (int round = -warmUp; round < rounds; round++) {
      long begin = System.nanoTime();
      for (int i = 0; i < calls; i++) {
        call.run();
      }
      stream.synchronize();
      times[Math.max(0, round)] = (System.nanoTime() - begin) / 1e3 / calls;
    }
    return median(times);
  }

  /** By the GPU's clock, a graph of calls. */
  double inAGraph(int calls, Runnable call) {
    double[] times = new double[rounds];
    try (CudaGraph graph = capture(calls, call);
        DeviceEvent begin = stream.device().createEvent();
        DeviceEvent end = stream.device().createEvent()) {
      for (int round = -1; round < rounds; round++) {
        stream.record(begin);
        graph.launch(stream);
        stream.record(end);
        stream.synchronize();
        times[Math.max(0, round)] = end.microsecondsSince(begin) / calls;
      }
    }
    return median(times);
  }

  /** A graph of calls. */
  CudaGraph capture(int calls, Runnable call) {
    stream.beginCapture();
    for (int i = 0; i < calls; i++) {
      call.run();
    }
    return stream.endCapture();
  }

  private double median(double[] times) {
    Arrays.sort(times);
    return times[rounds / 2];
  }
}
