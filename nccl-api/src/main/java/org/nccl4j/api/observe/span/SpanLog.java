package org.nccl4j.api.observe.span;

import java.time.Instant;
import java.util.ArrayDeque;
import java.util.Deque;

/**
 * The operations of one rank that a recording of its job has, until they are sent, and what goes on
 * beside them. Where they come faster than they are sent, the newest ones are left out; half of the
 * room is for operations alone, so that busy proxies leave room for them. Any thread adds, one at a
 * time takes.
 */
public final class SpanLog {
  /** Operations that are kept. */
  static final int ROOM = 20_000;

  /** Room that spans beside them have, such as steps of proxies. */
  static final int ROOM_BESIDE = ROOM / 2;

  private static final long SECOND_NANOS = 1_000_000_000L;
  private static final int TRIES = 16;

  /** Those that no question has met yet, so that who adds does not wait for a message. */
  private Deque<OperationSpan> come = new ArrayDeque<>();

  /** The others, oldest first. Owned by the thread that takes. */
  private final Deque<OperationSpan> kept = new ArrayDeque<>();

  /** The size of {@link #kept}, for those that add. */
  private int nKept;

  /** Of all of them, those beside operations. */
  private int nBeside;

  /** To add to {@link System#nanoTime} for the time since 1970. */
  private final long sinceNanos = sinceNanos();

  private long sent;
  private long leftOut;

  /** The clock's time of the shortest of several looks, in which nothing came between. */
  private static long sinceNanos() {
    long best = 0;
    long shortest = Long.MAX_VALUE;
    for (int n = 0; n < TRIES; n++) {
      long before = System.nanoTime();
      Instant now = Instant.now();
      long took = System.nanoTime() - before;
      if (took < shortest) {
        shortest = took;
        best = now.getEpochSecond() * SECOND_NANOS + now.getNano() - before - took / 2;
      }
    }
    return best;
  }

  /**
   * Adds an operation that has ended.
   *
   * @param span with the time of its begin by {@link System#nanoTime}
   * @param readyNanos by the same clock; the end of the operation before, 0 if it is unknown
   */
  public void add(OperationSpan span, long readyNanos, long endNanos) {
    OperationSpan whole =
        span.at(
            span.beginNanos() + sinceNanos,
            readyNanos == 0 ? 0 : readyNanos + sinceNanos,
            endNanos + sinceNanos);
    boolean isBeside = span.isBeside();
    synchronized (this) {
      if (come.size() + nKept < ROOM && (!isBeside || nBeside < ROOM_BESIDE)) {
        nBeside += isBeside ? 1 : 0;
        come.add(whole);
      } else {
        leftOut += span.every();
      }
    }
  }

  /** Takes the oldest operations out, as many as a message has room for. */
  byte[] take() {
    Deque<OperationSpan> next;
    long soFar;
    synchronized (this) {
      next = come;
      come = new ArrayDeque<>();
      nKept += next.size();
      soFar = leftOut;
    }
    kept.addAll(next);
    SpanMessage.Writer message = new SpanMessage.Writer();
    int taken = 0;
    int takenBeside = 0;
    while (!kept.isEmpty() && message.add(kept.peek())) {
      takenBeside += kept.remove().isBeside() ? 1 : 0;
      taken++;
    }
    byte[] bytes = message.done(sent, kept.size(), soFar);
    sent += taken;
    synchronized (this) {
      nKept = kept.size();
      nBeside -= takenBeside;
    }
    return bytes;
  }

  /** True if all operations have been taken. */
  synchronized boolean isEmpty() {
    return come.isEmpty() && nKept == 0;
  }
}
