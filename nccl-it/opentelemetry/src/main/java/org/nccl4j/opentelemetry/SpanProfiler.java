package org.nccl4j.opentelemetry;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.Tracer;
import java.time.Instant;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReferenceArray;
import org.nccl4j.api.spi.Profiler;

/**
 * Makes a span of each operation of one rank. Of operations under way it keeps as many spans as the
 * table has places; the span of an older one ends when its place is needed.
 */
final class SpanProfiler implements Profiler {
  static final AttributeKey<String> COMMUNICATOR = AttributeKey.stringKey("nccl.communicator");
  static final AttributeKey<Long> RANK = AttributeKey.longKey("nccl.rank");
  static final AttributeKey<Long> RANKS = AttributeKey.longKey("nccl.ranks");
  static final AttributeKey<String> OPERATION = AttributeKey.stringKey("nccl.operation");
  static final AttributeKey<Long> NUMBER = AttributeKey.longKey("nccl.operation.number");
  static final AttributeKey<Long> COUNT = AttributeKey.longKey("nccl.count");
  static final AttributeKey<Long> BYTES = AttributeKey.longKey("nccl.bytes");
  static final AttributeKey<Long> ROOT = AttributeKey.longKey("nccl.root");
  static final AttributeKey<String> END = AttributeKey.stringKey("nccl.end");

  /** Spans that may be open at a time; a power of two. */
  static final int OPEN_SPANS = 4096;

  private static final long SECOND_NANOS = 1_000_000_000L;

  /**
   * The span of an operation that has not ended.
   *
   * @param epochNanos when it began, since 1970
   * @param nanos the same by {@link System#nanoTime}
   */
  private record Open(long number, Span span, long epochNanos, long nanos) {}

  private final Tracer tracer;
  private final Attributes common;
  private final AtomicReferenceArray<Open> table = new AtomicReferenceArray<>(OPEN_SPANS);

  SpanProfiler(Tracer tracer, String communicator, int rank, int nRanks) {
    this.tracer = tracer;
    this.common =
        Attributes.of(COMMUNICATOR, communicator, RANK, (long) rank, RANKS, (long) nRanks);
  }

  @Override
  public int activation() {
    return LAUNCHES | ENDS;
  }

  @Override
  public void launched(Operation operation) {
    long nanos = System.nanoTime();
    Instant now = Instant.now();
    long epochNanos = now.getEpochSecond() * SECOND_NANOS + now.getNano();
    Span span =
        tracer
            .spanBuilder("nccl " + operation.name())
            .setAllAttributes(common)
            .setAttribute(OPERATION, operation.name())
            .setAttribute(NUMBER, operation.number())
            .setAttribute(COUNT, operation.count())
            .setAttribute(BYTES, operation.bytes())
            .setAttribute(ROOT, (long) operation.root())
            .setStartTimestamp(epochNanos, TimeUnit.NANOSECONDS)
            .startSpan();
    if (span.isRecording()) {
      Open open = new Open(operation.number(), span, epochNanos, nanos);
      endUnseen(table.getAndSet(place(operation), open));
    }
  }

  @Override
  public void ended(Operation operation, long nanos) {
    int place = place(operation);
    Open open = table.get(place);
    if (open != null
        && open.number == operation.number()
        && table.compareAndSet(place, open, null)) {
      long took = Math.max(0, nanos - open.nanos);
      open.span.end(open.epochNanos + took, TimeUnit.NANOSECONDS);
    }
  }

  @Override
  public void close() {
    for (int place = 0; place < OPEN_SPANS; place++) {
      endUnseen(table.getAndSet(place, null));
    }
  }

  private static void endUnseen(Open open) {
    if (open != null) {
      open.span.setAttribute(END, "unknown").end();
    }
  }

  private static int place(Operation operation) {
    return (int) operation.number() & (OPEN_SPANS - 1);
  }
}
