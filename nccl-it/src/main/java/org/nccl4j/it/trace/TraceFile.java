package org.nccl4j.it.trace;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonGenerator;
import java.io.IOException;
import java.io.Writer;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.it.trace.Span.RecordedProcess;

/**
 * Writes spans in Chrome's trace event format, which Perfetto reads too. A process of the trace is
 * a process of the program, a thread of the trace is a rank of a communicator.
 */
final class TraceFile {
  private static final double MICROSECOND_NANOS = 1e3;

  private final Map<RecordedProcess, Integer> processes = new LinkedHashMap<>();
  private final Map<RecordedProcess, Map<Track, Integer>> tracks = new HashMap<>();

  /** End of the last span of a track: a stream runs one operation after the other. */
  private final Map<RecordedProcess, Map<Track, Long>> ends = new HashMap<>();

  /** Communicators of one process may have one name. */
  private record Track(long communicator, String name) {
    static Track of(Span span) {
      return new Track(span.communicator(), span.track());
    }
  }

  private TraceFile() {}

  /** Writes a trace, with corrected times. */
  static void write(List<Span> spans, ClockOffsets offsets, Writer to) throws IOException {
    List<Span> moved = new ArrayList<>();
    for (Span span : spans) {
      long offset = offsets.of(span);
      moved.add(
          new Span(
              span.process(),
              span.communicator(),
              span.track(),
              span.name(),
              span.call(),
              span.beginNanos() + offset,
              span.readyNanos() == 0 ? 0 : span.readyNanos() + offset,
              span.endNanos() + offset,
              span.details()));
    }
    moved.sort(Comparator.comparingLong(Span::beginNanos));
    long origin = moved.isEmpty() ? 0 : moved.get(0).beginNanos();
    TraceFile file = new TraceFile();
    try (JsonGenerator out = new JsonFactory().createGenerator(to)) {
      out.writeStartObject();
      out.writeStringField("displayTimeUnit", "ns");
      if (!offsets.text().isEmpty()) {
        out.writeObjectFieldStart("otherData");
        out.writeStringField("clocks", String.join("; ", offsets.text()));
        out.writeEndObject();
      }
      out.writeArrayFieldStart("traceEvents");
      for (Span span : moved) {
        file.write(span, origin, out);
      }
      out.writeEndArray();
      out.writeEndObject();
    }
  }

  private void write(Span span, long origin, JsonGenerator out) throws IOException {
    int process = process(span.process(), out);
    int track = track(process, span, out);
    Map<Track, Long> last = ends.computeIfAbsent(span.process(), key -> new HashMap<>());
    boolean moment = span.beginNanos() == span.endNanos();
    boolean isReadyKnown = span.readyNanos() != 0;
    // An operation runs after the one before it in its rank; till then it is queued.
    long ready =
        isReadyKnown ? span.readyNanos() : last.getOrDefault(Track.of(span), Long.MIN_VALUE);
    long begin =
        moment ? span.beginNanos() : Math.min(span.endNanos(), Math.max(span.beginNanos(), ready));
    if (!moment) {
      last.merge(Track.of(span), span.endNanos(), Math::max);
    }
    out.writeStartObject();
    out.writeStringField("name", span.name());
    out.writeStringField("ph", moment ? "i" : "X");
    out.writeNumberField("pid", process);
    out.writeNumberField("tid", track);
    out.writeNumberField("ts", (begin - origin) / MICROSECOND_NANOS);
    if (moment) {
      out.writeStringField("s", "t");
    } else {
      out.writeNumberField("dur", (span.endNanos() - begin) / MICROSECOND_NANOS);
    }
    out.writeObjectFieldStart("args");
    if (!moment) {
      out.writeNumberField("queued_us", (begin - span.beginNanos()) / MICROSECOND_NANOS);
      if (span.leftOut() > 0 && !isReadyKnown) {
        out.writeBooleanField("exact", false);
      }
    }
    for (Map.Entry<String, Object> detail : span.details().entrySet()) {
      write(detail, out);
    }
    out.writeEndObject();
    out.writeEndObject();
  }

  private static void write(Map.Entry<String, Object> detail, JsonGenerator out)
      throws IOException {
    if (detail.getValue() instanceof Long number) {
      out.writeNumberField(detail.getKey(), number);
    } else if (detail.getValue() instanceof Integer number) {
      out.writeNumberField(detail.getKey(), number);
    } else if (detail.getValue() != null) {
      out.writeStringField(detail.getKey(), detail.getValue().toString());
    }
  }

  private int process(RecordedProcess process, JsonGenerator out) throws IOException {
    Integer known = processes.get(process);
    if (known == null) {
      known = processes.size() + 1;
      processes.put(process, known);
      name("process_name", known, 0, process.toString(), out);
    }
    return known;
  }

  private int track(int process, Span span, JsonGenerator out) throws IOException {
    Map<Track, Integer> own = tracks.computeIfAbsent(span.process(), key -> new HashMap<>());
    Integer known = own.get(Track.of(span));
    if (known == null) {
      known = own.size() + 1;
      boolean isTaken = own.keySet().stream().anyMatch(each -> each.name.equals(span.track()));
      own.put(Track.of(span), known);
      String number = Long.toHexString(span.communicator());
      name(
          "thread_name",
          process,
          known,
          isTaken ? span.track() + ", communicator " + number : span.track(),
          out);
    }
    return known;
  }

  private static void name(String what, int process, int track, String text, JsonGenerator out)
      throws IOException {
    out.writeStartObject();
    out.writeStringField("name", what);
    out.writeStringField("ph", "M");
    out.writeNumberField("pid", process);
    out.writeNumberField("tid", track);
    out.writeObjectFieldStart("args");
    out.writeStringField("name", text);
    out.writeEndObject();
    out.writeEndObject();
  }
}
