package org.nccl4j.it.trace;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.it.trace.Span.RecordedProcess;

/**
 * Finds the differences of the processes' clocks from collectives that all ranks take part in: one
 * ends on no rank before the last rank has called it. Each such call bounds the difference of two
 * clocks from both sides. The result is the smallest correction that keeps all bounds, so that
 * processes of one host, whose clocks agree, are not moved.
 */
final class ClockOffsets {
  /** The calls of a process: latest begin and earliest end among its ranks, by call. */
  private final Map<RecordedProcess, Map<Call, long[]>> calls = new LinkedHashMap<>();

  private record Call(long communicator, long number) {}

  private ClockOffsets() {}

  /** Nanoseconds to add to the times of each process. */
  static Map<RecordedProcess, Long> of(List<Span> spans) {
    ClockOffsets offsets = new ClockOffsets();
    spans.forEach(offsets::add);
    return offsets.solve();
  }

  private void add(Span span) {
    Map<Call, long[]> own = calls.computeIfAbsent(span.process(), process -> new HashMap<>());
    if (span.call() > 0) {
      long[] times =
          own.computeIfAbsent(
              new Call(span.communicator(), span.call()),
              call -> new long[] {Long.MIN_VALUE, Long.MAX_VALUE});
      times[0] = Math.max(times[0], span.beginNanos());
      times[1] = Math.min(times[1], span.endNanos());
    }
  }

  /**
   * Takes the smallest correction for one process after the other, which closed bounds allow
   * without looking ahead.
   */
  private Map<RecordedProcess, Long> solve() {
    List<RecordedProcess> processes = List.copyOf(calls.keySet());
    double[][] most = bounds(processes);
    close(most);
    double[] found = new double[processes.size()];
    Map<RecordedProcess, Long> offsets = new LinkedHashMap<>();
    for (int p = 0; p < found.length; p++) {
      double low = Double.NEGATIVE_INFINITY;
      double high = Double.POSITIVE_INFINITY;
      for (int q = 0; q < p; q++) {
        low = Math.max(low, found[q] - most[q][p]);
        high = Math.min(high, found[q] + most[p][q]);
      }
      found[p] =
          low > high
              ? (low + high) / 2 // the clocks drifted meanwhile
              : Math.max(low, Math.min(high, 0));
      offsets.put(processes.get(p), Math.round(found[p]));
    }
    return offsets;
  }

  /** The most by which the offset of one process can exceed that of another, by both numbers. */
  private double[][] bounds(List<RecordedProcess> processes) {
    int n = processes.size();
    double[][] most = new double[n][n];
    for (int p = 0; p < n; p++) {
      Map<Call, long[]> mine = calls.get(processes.get(p));
      for (int q = 0; q < n; q++) {
        Map<Call, long[]> theirs = calls.get(processes.get(q));
        most[p][q] = p == q ? 0 : Double.POSITIVE_INFINITY;
        for (Map.Entry<Call, long[]> call : mine.entrySet()) {
          long[] their = p == q ? null : theirs.get(call.getKey());
          if (their != null) {
            // their end + their offset >= my begin + my offset
            most[p][q] = Math.min(most[p][q], their[1] - call.getValue()[0]);
          }
        }
      }
    }
    return most;
  }

  /** Adds the bounds that follow over a third process. */
  private static void close(double[][] most) {
    for (int via = 0; via < most.length; via++) {
      for (double[] row : most) {
        for (int to = 0; to < most.length; to++) {
          row[to] = Math.min(row[to], row[via] + most[via][to]);
        }
      }
    }
  }
}
