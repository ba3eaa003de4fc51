package org.nccl4j.it.trace;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.StringWriter;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.nccl4j.it.trace.Span.RecordedProcess;

/** Spans as trace events. */
class TraceFileTest {
  private static final RecordedProcess PROCESS = new RecordedProcess("h", 5);

  private static Span span(String name, long begin, long end) {
    return span(7, name, begin, end);
  }

  private static Span span(long communicator, String name, long begin, long end) {
    return new Span(
        PROCESS, communicator, "c, rank 0", name, 1, begin, 0, end, Map.of("bytes", 8L));
  }

  /** One of 32 operations, all of which were launched at 0. */
  private static Span oneOfMany(String name, long ready, long end) {
    return new Span(PROCESS, 7, "c, rank 0", name, 1, 0, ready, end, Map.of("every", 32L));
  }

  /** The second operation was launched at 2000 and waits in its stream until the first ends. */
  @Test
  void operationsOfARankFollowEachOther() throws IOException {
    StringWriter text = new StringWriter();
    TraceFile.write(
        List.of(span("one", 1000, 5000), span("two", 2000, 9000), span("end", 9500, 9500)),
        new ClockOffsets(Map.of("h", 0L), 2, 0, 0),
        text);
    assertEquals(
        "{\"displayTimeUnit\":\"ns\",\"traceEvents\":["
            + "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"tid\":0,"
            + "\"args\":{\"name\":\"process 5 on h\"}},"
            + "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":1,"
            + "\"args\":{\"name\":\"c, rank 0\"}},"
            + "{\"name\":\"one\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":0.0,\"dur\":4.0,"
            + "\"args\":{\"queued_us\":0.0,\"bytes\":8}},"
            + "{\"name\":\"two\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":4.0,\"dur\":4.0,"
            + "\"args\":{\"queued_us\":3.0,\"bytes\":8}},"
            + "{\"name\":\"end\",\"ph\":\"i\",\"pid\":1,\"tid\":1,\"ts\":8.5,\"s\":\"t\","
            + "\"args\":{\"bytes\":8}}]}",
        text.toString());
  }

  /** Those before them are not recorded. */
  @Test
  void anOperationOfASampledRankBeginsAtTheEndOfTheOneBefore() throws IOException {
    StringWriter text = new StringWriter();
    TraceFile.write(
        List.of(
            oneOfMany("one", 10_000, 30_000),
            oneOfMany("two", 650_000, 670_000),
            oneOfMany("three", 0, 680_000)),
        new ClockOffsets(Map.of("h", 1_000L), 0, 0, 0),
        text);
    assertContains(
        text,
        "\"name\":\"one\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":10.0,\"dur\":20.0,"
            + "\"args\":{\"queued_us\":10.0,\"every\":32}");
    assertContains(
        text,
        "\"name\":\"two\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":650.0,\"dur\":20.0,"
            + "\"args\":{\"queued_us\":650.0,\"every\":32}");
    assertContains(
        text,
        "\"name\":\"three\",\"ph\":\"X\",\"pid\":1,\"tid\":1,\"ts\":670.0,\"dur\":10.0,"
            + "\"args\":{\"queued_us\":670.0,\"exact\":false,\"every\":32}");
  }

  /** The second begins while the first one's operation runs. */
  @Test
  void communicatorsOfOneNameHaveRowsOfTheirOwn() throws IOException {
    StringWriter text = new StringWriter();
    TraceFile.write(
        List.of(span(1, "one", 0, 100_000), span(0xabc, "two", 10_000, 50_000)),
        new ClockOffsets(Map.of(), 0, 0, 0),
        text);
    assertContains(text, "\"tid\":2,\"args\":{\"name\":\"c, rank 0, communicator abc\"}}");
    assertContains(
        text,
        "\"name\":\"two\",\"ph\":\"X\",\"pid\":1,\"tid\":2,\"ts\":10.0,\"dur\":40.0,"
            + "\"args\":{\"queued_us\":0.0,");
  }

  @Test
  void whatIsWrongWithClocksIsInTheFile() throws IOException {
    StringWriter text = new StringWriter();
    TraceFile.write(
        List.of(span("one", 0, 100)),
        new ClockOffsets(Map.of("h", -1_500_000L), 3, 2, 20_000),
        text);
    assertContains(
        text,
        "\"otherData\":{\"clocks\":\"the clock of h was moved by -1.500 ms; 2 of 3 collectives end"
            + " on a rank up to 0.020 ms before another calls them: clocks drift;");
  }

  private static void assertContains(StringWriter text, String part) {
    assertTrue(text.toString().contains(part), text::toString);
  }
}
