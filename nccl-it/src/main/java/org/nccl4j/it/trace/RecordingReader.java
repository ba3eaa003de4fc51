package org.nccl4j.it.trace;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.FileSystemException;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import jdk.jfr.consumer.RecordedEvent;
import jdk.jfr.consumer.RecordingFile;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.os.IoErrorText;
import org.nccl4j.it.trace.Span.RecordedProcess;

/** Reads nccl4j's events out of a recording of Java Flight Recorder. */
final class RecordingReader {
  private static final String PREFIX = "org.nccl4j.";

  /** The first bytes of each of a recording's parts. */
  private static final int MAGIC = 'F' << 24 | 'L' << 16 | 'R' << 8;

  /** The place of the size in each of a recording's parts, 0 while the part is written. */
  private static final int SIZE_AT = 8;

  private static final long SECOND_NANOS = 1_000_000_000L;
  private static final List<String> NOT_SHOWN =
      List.of("startTime", "duration", "eventThread", "launchNanos", "waitNanos", "runNanos");

  private RecordingReader() {}

  /**
   * The spans of a recording, in the order of their begins.
   *
   * @throws InvalidArgumentException if the file is no recording, or a damaged one
   */
  static List<Span> read(Path file) {
    try {
      return spans(file);
    } catch (IOException e) {
      throw unreadable(file, IoErrorText.of(e), e);
    } catch (RuntimeException e) { // the JDK throws any of a file with wrong bytes
      throw unreadable(file, "it is damaged (" + e + ")", e);
    }
  }

  private static InvalidArgumentException unreadable(Path file, String why, Exception cause) {
    return new InvalidArgumentException(
        ErrorId.FILE,
        "%s cannot be read as a recording: %s".formatted(file, why),
        "pass whole files of Java Flight Recorder, which end in .jfr",
        cause);
  }

  private static List<Span> spans(Path file) throws IOException {
    List<RecordedEvent> events = new ArrayList<>();
    RecordedProcess process = new RecordedProcess("", 0);
    try (RecordingFile recording = open(file)) {
      while (recording.hasMoreEvents()) {
        RecordedEvent event = recording.readEvent();
        if (event.getEventType().getName().startsWith(PREFIX)) {
          events.add(event);
          if (event.hasField("pid")) {
            process = new RecordedProcess(event.getString("host"), event.getLong("pid"));
          }
        }
      }
    }
    if (process.pid() == 0) {
      process = new RecordedProcess(file.getFileName().toString(), 0);
    }
    List<Span> spans = new ArrayList<>();
    for (RecordedEvent event : events) {
      add(event, process, spans);
    }
    spans.sort(java.util.Comparator.comparingLong(Span::beginNanos));
    return spans;
  }

  private static RecordingFile open(Path file) throws IOException {
    // Like other files first: of one that is missing, the recording's error has other words.
    try (FileChannel in = FileChannel.open(file)) {
      long end = in.size();
      long part = hasMagic(in) ? 0 : end; // the JDK refuses what is no recording
      while (part < end) {
        long size = partSize(in, part);
        if (size == 0 || size > end - part) {
          // The JDK would wait for its end, for ever if the process was killed.
          throw new FileSystemException(
              file.toString(),
              null,
              "its process has not finished it, or the file is cut off; dump it with jcmd");
        }
        part = size < 0 ? end : part + size; // a damaged one is left to the JDK
      }
    }
    return new RecordingFile(file);
  }

  private static boolean hasMagic(FileChannel in) throws IOException {
    ByteBuffer magic = read(in, 0, Integer.BYTES);
    return !magic.hasRemaining() && magic.getInt(0) == MAGIC;
  }

  /** The size in the header of a part; 0 while it is written, or if the header is cut off. */
  private static long partSize(FileChannel in, long part) throws IOException {
    ByteBuffer header = read(in, part, SIZE_AT + Long.BYTES);
    return header.hasRemaining() ? 0 : header.getLong(SIZE_AT);
  }

  /** Bytes from a place on; some of the buffer remains where the file ends before. */
  private static ByteBuffer read(FileChannel in, long at, int n) throws IOException {
    ByteBuffer bytes = ByteBuffer.allocate(n);
    while (bytes.hasRemaining() && in.read(bytes, at + bytes.position()) > 0) {
      continue;
    }
    return bytes;
  }

  private static void add(RecordedEvent event, RecordedProcess process, List<Span> spans) {
    String type = event.getEventType().getName().substring(PREFIX.length());
    switch (type) {
      case "Operation" -> spans.add(operation(event, process));
      case "ProxyStep" ->
          spans.add(
              span(
                  event,
                  process,
                  "rank %d, proxy, %s %d"
                      .formatted(
                          event.getInt("rank"), event.getString("direction"), event.getInt("peer")),
                  event.getString("direction")));
      case "InitPhase" ->
          spans.add(span(event, process, rank(event) + ", creation", event.getString("phase")));
      case "Failure" -> spans.add(span(event, process, rank(event), "failure"));
      case "Stall" ->
          spans.add(
              span(
                  event,
                  process,
                  rank(event),
                  "waits for rank %d".formatted(event.getInt("waitsFor"))));
      default -> {
        // Progress repeats what the operations say.
      }
    }
  }

  private static Span operation(RecordedEvent event, RecordedProcess process) {
    Span whole = span(event, process, rank(event), event.getString("operation"));
    return new Span(
        process,
        whole.communicator(),
        whole.track(),
        whole.name(),
        Span.waitsForAll(whole.name()) ? number(event, "number") : 0,
        whole.beginNanos() - number(event, "launchNanos"), // the event begins after the launch
        event.hasField("waitNanos") && event.getLong("waitNanos") >= 0
            ? whole.beginNanos() + event.getLong("waitNanos")
            : 0,
        event.hasField("runNanos")
            ? whole.beginNanos() + event.getLong("runNanos")
            : whole.endNanos(),
        whole.details());
  }

  /** Of an event that may be of an older version. */
  private static long number(RecordedEvent event, String field) {
    return event.hasField(field) ? event.getLong(field) : 0;
  }

  private static String rank(RecordedEvent event) {
    return Span.track(event.getString("communicator"), event.getInt("rank"));
  }

  private static Span span(
      RecordedEvent event, RecordedProcess process, String track, String name) {
    Map<String, Object> details = new LinkedHashMap<>();
    event.getFields().stream()
        .map(field -> field.getName())
        .filter(field -> !NOT_SHOWN.contains(field))
        .forEach(field -> details.put(field, event.getValue(field)));
    return new Span(
        process,
        number(event, "communicatorId"),
        track,
        name,
        0,
        nanos(event.getStartTime()),
        0,
        nanos(event.getEndTime()),
        details);
  }

  private static long nanos(Instant time) {
    return time.getEpochSecond() * SECOND_NANOS + time.getNano();
  }
}
