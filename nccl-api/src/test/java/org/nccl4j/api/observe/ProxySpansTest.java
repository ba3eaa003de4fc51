package org.nccl4j.api.observe;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** The number of steps of proxies that a recording has. */
class ProxySpansTest {
  private static final long PERIOD = 50_000_000;

  private static int begun(ProxySpans spans, long nanos, int steps) {
    return (int) IntStream.range(0, steps).filter(step -> spans.begin(nanos) != 0).count();
  }

  /** A time may be any number but 0, which says that there is none. */
  @Test
  void aPeriodHasATwentiethOfTheRate() {
    ProxySpans spans = new ProxySpans(new Object(), "training", 0, 100);
    assertEquals(5, begun(spans, 0, 8));
    assertEquals(0, begun(spans, PERIOD - 1, 3));
    assertEquals(5, begun(spans, PERIOD, 5));
    assertEquals(0, begun(spans, PERIOD + 7, 5));
    assertEquals(2, begun(spans, -PERIOD, 2));
    assertEquals(1, begun(new ProxySpans(new Object(), "few", 0, 1), 7, 100));
    assertEquals(1000, begun(new ProxySpans(new Object(), "all", 0, 0), 7, 1000));
  }
}
