package org.nccl4j.api.observe;

import java.lang.System.Logger.Level;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import org.nccl4j.api.observe.span.OperationSpan;
import org.nccl4j.api.observe.span.SpanLogs;
import org.nccl4j.device.DebugLog;

/**
 * The durations of the phases of a communicator's creation: as events for Java Flight Recorder, as
 * spans for observers of the job, and as one line of the log. One thread.
 */
public final class InitTimes {
  /** The phase in which ranks come together, by sockets. */
  public static final String BOOTSTRAP = "bootstrap";

  private static final System.Logger LOG = DebugLog.of("INIT");

  private final String communicator;
  private final int rank;
  private final Object job;
  private final Map<String, Long> nanos = new LinkedHashMap<>();
  private Events.InitPhase phase;
  private String name;
  private long began;

  /**
   * Nothing has begun.
   *
   * @param job whose observers may record the creation
   */
  public InitTimes(String communicator, int rank, Object job) {
    this.communicator = communicator;
    this.rank = rank;
    this.job = job;
  }

  /** Ends the phase that is under way, and begins another. */
  public void begin(String nextName) {
    end();
    name = nextName;
    began = System.nanoTime();
    if (Events.areRecorded()) {
      phase = new Events.InitPhase();
      phase.begin();
    }
  }

  private void end() {
    if (name != null) {
      long now = System.nanoTime();
      nanos.merge(name, now - began, Long::sum);
      if (SpanLogs.areAny()) {
        OperationSpan phaseOfJob =
            OperationSpan.other(0, communicator, rank, "creation", name, /* peer= */ -1);
        SpanLogs.add(job, phaseOfJob.with(0, 0, began), now);
      }
    }
    if (phase != null) {
      phase.communicator = communicator;
      phase.rank = rank;
      phase.phase = name;
      phase.commit();
    }
    name = null;
    phase = null;
  }

  /** Ends the last phase, and logs all. */
  public void done(Level level) {
    end();
    if (LOG.isLoggable(level)) {
      String parts =
          nanos.entrySet().stream()
              .map(e -> String.format(Locale.ROOT, "%s %.2f ms", e.getKey(), e.getValue() / 1e6))
              .collect(Collectors.joining(", "));
      double all = nanos.values().stream().mapToLong(Long::longValue).sum() / 1e6;
      LOG.log(
          level,
          "rank {0} of communicator {1} was created in {2} ms: {3}",
          Integer.toString(rank),
          communicator,
          String.format(Locale.ROOT, "%.2f", all),
          parts);
    }
  }
}
