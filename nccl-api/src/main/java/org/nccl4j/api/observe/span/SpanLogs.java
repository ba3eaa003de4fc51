package org.nccl4j.api.observe.span;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;

/**
 * Recordings of the ranks of this process for observers, each rank by its job's object. A recording
 * ends when its observer says so, or no longer asks. Any thread.
 */
public final class SpanLogs {
  /** Recordings of a rank at the same time. */
  static final int MOST = 4;

  /** A recording ends after so long without a question. */
  static final long LEASE_NANOS = 15_000_000_000L;

  private static final Map<Object, Map<Long, Recording>> ALL = new IdentityHashMap<>();

  /** True while a rank of this process is recorded, for those that would have something to add. */
  private static volatile boolean any;

  private static final class Recording {
    private final SpanLog log = new SpanLog();
    private boolean goesOn = true;
    private long askedNanos;
  }

  private SpanLogs() {}

  /**
   * A rank's answer to a question: the oldest operations that it has not sent. Its first question
   * begins a recording, unless there are too many.
   */
  public static synchronized byte[] answer(Object job, SpanQuestion question, long nowNanos) {
    endOverdue(nowNanos);
    Map<Long, Recording> own = ALL.computeIfAbsent(job, key -> new HashMap<>());
    Recording known = own.get(question.recording());
    if (known == null && question.goesOn() && own.size() < MOST) {
      known = new Recording();
      own.put(question.recording(), known);
    }
    byte[] answer = known == null ? SpanMessage.refusal() : known.log.take();
    if (known != null) {
      known.askedNanos = nowNanos;
      known.goesOn &= question.goesOn();
      if (!known.goesOn && known.log.isEmpty()) {
        own.remove(question.recording());
      }
    }
    dropEmpty();
    return answer;
  }

  private static void dropEmpty() {
    ALL.values().removeIf(Map::isEmpty);
    any = !ALL.isEmpty();
  }

  /** True if an observer may record a rank of this process. Costs a look at a word. */
  public static boolean areAny() {
    return any;
  }

  /**
   * Adds what is no operation to all recordings of a rank.
   *
   * @param span with the time of its begin by {@link System#nanoTime}
   */
  public static void add(Object job, OperationSpan span, long endNanos) {
    if (any) {
      of(job).forEach(log -> log.add(span, 0, endNanos));
    }
  }

  /** The answer of a rank without communicators: no operations. */
  public static byte[] nothing() {
    return new SpanMessage.Writer().done(0, 0, 0);
  }

  /** The logs to which a rank's operations are added now. */
  public static synchronized List<SpanLog> of(Object job) {
    Map<Long, Recording> own = ALL.get(job);
    if (own == null) {
      return List.of();
    }
    List<SpanLog> logs = new ArrayList<>();
    own.values().stream().filter(each -> each.goesOn).forEach(each -> logs.add(each.log));
    return List.copyOf(logs);
  }

  /** Ends all recordings of a rank, whose communicators are closed. */
  public static synchronized void end(Object job) {
    ALL.remove(job);
    any = !ALL.isEmpty();
  }

  /** Ends recordings that nobody asks for any more, such as of an observer that was killed. */
  public static synchronized void endOverdue(long nowNanos) {
    if (!ALL.isEmpty()) {
      ALL.values()
          .forEach(own -> own.values().removeIf(each -> nowNanos - each.askedNanos > LEASE_NANOS));
      dropEmpty();
    }
  }
}
