package org.nccl4j.it.perf.rank;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.nccl4j.api.Group;
import org.nccl4j.device.cuda.CudaGraph;
import org.nccl4j.device.cuda.CudaStream;
import org.nccl4j.it.perf.workload.PreparedCall;

/**
 * One iteration of a measurement on all lanes of a thread: an operation, a group of operations, or
 * a graph of iterations. Used by one thread.
 */
final class Launches implements AutoCloseable {
  private final List<RankLane> lanes;
  private final List<PreparedCall> operations;
  private final Library library;
  private final int aggregate;
  private final List<CudaGraph> graphs = new ArrayList<>();

  /**
   * Iterations of one operation on each lane.
   *
   * @param operations by lane
   */
  Launches(List<RankLane> lanes, List<PreparedCall> operations, Library library, int aggregate) {
    this.lanes = lanes;
    this.operations = operations;
    this.library = library;
    this.aggregate = aggregate;
  }

  /** Launches iterations. */
  void run(int iterations) {
    if (lanes.size() == 1 && aggregate == 1) {
      PreparedCall operation = operations.get(0);
      for (int i = 0; i < iterations; i++) {
        operation.launch();
      }
      return;
    }
    for (int i = 0; i < iterations; i++) {
      groupStart();
      for (int k = 0; k < aggregate; k++) {
        for (int lane = 0; lane < lanes.size(); lane++) {
          operations.get(lane).launch();
        }
      }
      groupEnd();
    }
  }

  private void groupStart() {
    if (library.isOurs()) {
      Group.start();
    } else {
      lanes.get(0).nccl().groupStart();
    }
  }

  private void groupEnd() {
    if (library.isOurs()) {
      Group.end();
    } else {
      lanes.get(0).nccl().groupEnd();
    }
  }

  /**
   * Records iterations into a graph for each lane. No stream is left capturing after a failure: its
   * next operation would fail, or worse.
   */
  void capture(int iterations) {
    Deque<CudaStream> begun = new ArrayDeque<>();
    try {
      for (RankLane lane : lanes) {
        stream(lane).beginCapture();
        begun.add(stream(lane));
      }
      run(iterations);
      while (!begun.isEmpty()) {
        graphs.add(begun.remove().endCapture());
      }
    } catch (RuntimeException | Error e) {
      begun.forEach(stream -> discard(stream, e));
      throw e;
    }
  }

  private static void discard(CudaStream stream, Throwable cause) {
    try {
      stream.endCapture().close();
    } catch (RuntimeException e) {
      cause.addSuppressed(e); // that a capture is spoilt is known by now
    }
  }

  /** Launches what was captured. */
  void runGraphs(int times) {
    for (int i = 0; i < times; i++) {
      for (int lane = 0; lane < graphs.size(); lane++) {
        graphs.get(lane).launch(stream(lanes.get(lane)));
      }
    }
  }

  private static CudaStream stream(RankLane lane) {
    return (CudaStream) lane.stream();
  }

  @Override
  public void close() {
    graphs.forEach(CudaGraph::close);
  }
}
