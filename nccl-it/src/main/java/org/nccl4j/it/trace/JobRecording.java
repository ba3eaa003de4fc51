package org.nccl4j.it.trace;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.observe.span.JobTrace;
import org.nccl4j.api.observe.span.OperationSpan;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.support.Patience;
import org.nccl4j.it.trace.Span.RecordedProcess;

/**
 * The operations, creations and proxies of a job on all its hosts, asked of its ranks for some
 * seconds.
 *
 * @param missing problems of roots and ranks that gave nothing, or not all
 */
record JobRecording(List<Span> spans, List<String> missing) {
  /** Time between two questions. A rank keeps the operations of several times as long. */
  private static final long PERIOD_NANOS = 500_000_000;

  private static final double SECOND_NANOS = 1e9;

  /**
   * Records a job.
   *
   * @throws org.nccl4j.device.NcclException as {@link JobTrace#begin}
   */
  static JobRecording of(List<String> ids, Settings settings, double seconds) {
    long begin = System.nanoTime();
    JobTrace trace = JobTrace.begin(ids, settings);
    long end = begin + (long) (seconds * SECOND_NANOS);
    boolean goesOn = true;
    for (long left = end - System.nanoTime(); left > 0 && goesOn; left = end - System.nanoTime()) {
      Patience.sleep(Math.min(left, PERIOD_NANOS));
      goesOn = trace.look();
    }
    trace.end();
    List<String> missing = new ArrayList<>(trace.missing());
    if (trace.isFull()) {
      missing.add(
          "what followed on %d operations, the most of a timeline; record for less time with -s,"
                  .formatted(JobTrace.MOST_SPANS)
              + " or start the job with a smaller NCCL4J_TRACE_RATE");
    }
    return new JobRecording(
        trace.spans().stream().map(each -> span(each)).toList(), List.copyOf(missing));
  }

  private static Span span(JobTrace.Recorded recorded) {
    OperationSpan of = recorded.span();
    boolean operates = !of.type().isEmpty();
    String track = Span.track(of.name(), of.rank());
    return new Span(
        new RecordedProcess(recorded.process().host(), recorded.process().pid()),
        of.communicator(),
        of.row().isEmpty() ? track : track + ", " + of.row(),
        of.operation(),
        operates && Span.waitsForAll(of.operation()) ? of.number() : 0,
        of.beginNanos(),
        of.readyNanos(),
        of.endNanos(),
        operates ? ofOperation(of) : ofOther(of));
  }

  private static Map<String, Object> ofOperation(OperationSpan of) {
    Map<String, Object> details = new LinkedHashMap<>();
    details.put("type", of.type());
    details.put("bytes", of.bytes());
    details.put("root", of.root());
    details.put("communicatorId", of.communicator());
    details.put("number", of.number());
    details.put("every", of.every());
    return details;
  }

  /** Of a step of a proxy, which has bytes, or of something without any. */
  private static Map<String, Object> ofOther(OperationSpan of) {
    Map<String, Object> details = new LinkedHashMap<>();
    if (of.root() >= 0) {
      details.put("peer", of.root());
    }
    if (of.bytes() > 0) {
      details.put("step", of.number());
      details.put("bytes", of.bytes());
    }
    return details;
  }
}
