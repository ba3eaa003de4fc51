package org.nccl4j.api.observe;

import java.util.concurrent.atomic.AtomicInteger;
import org.nccl4j.api.observe.span.OperationSpan;
import org.nccl4j.api.observe.span.SpanLogs;
import org.nccl4j.api.spi.TransportContext;

/**
 * Steps of one rank's proxies as spans for observers of the job, as many a second as operations at
 * most: the first ones of each twentieth of a second. Any thread.
 */
public final class ProxySpans implements TransportContext.StepTimes {
  private static final int PERIODS_A_SECOND = 20;
  private static final long PERIOD_NANOS = 1_000_000_000L / PERIODS_A_SECOND;

  private final Object job;
  private final String communicator;
  private final int rank;

  /** Most spans of a period. */
  private final int most;

  /** The period that {@link #left} is of. Several threads may begin one: then it has some more. */
  private volatile long period = Long.MIN_VALUE;

  private final AtomicInteger left = new AtomicInteger();

  /**
   * Spans of a communicator's connections, which splits may share.
   *
   * @param rate spans a second; 0: all
   */
  public ProxySpans(Object job, String communicator, int rank, int rate) {
    this.job = job;
    this.communicator = communicator;
    this.rank = rank;
    this.most = rate == 0 ? Integer.MAX_VALUE : Math.max(1, rate / PERIODS_A_SECOND);
  }

  @Override
  public long begin() {
    return SpanLogs.areAny() ? begin(System.nanoTime()) : 0;
  }

  /** Begins at a time; 0 if its period has as many spans as it may have. */
  long begin(long nanos) {
    long now = Math.floorDiv(nanos, PERIOD_NANOS);
    if (now != period) {
      period = now;
      left.set(most);
    }
    if (left.get() <= 0 || left.decrementAndGet() < 0) {
      return 0;
    }
    return nanos == 0 ? 1 : nanos;
  }

  @Override
  public void ended(TransportContext.EndedStep step, long beginNanos) {
    long end = System.nanoTime();
    String direction = step.sends() ? "send" : "recv";
    OperationSpan span =
        OperationSpan.other(
            0,
            communicator,
            rank,
            "proxy, %s %d".formatted(direction, step.peer()),
            step.zeroCopy() ? direction + ", zero copy" : direction,
            step.peer());
    SpanLogs.add(job, span.with(step.bytes(), step.number(), beginNanos), end);
  }
}
