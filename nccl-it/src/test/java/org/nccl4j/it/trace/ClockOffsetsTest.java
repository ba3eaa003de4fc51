package org.nccl4j.it.trace;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.LongBinaryOperator;
import java.util.function.LongUnaryOperator;
import org.junit.jupiter.api.Test;
import org.nccl4j.it.trace.Span.RecordedProcess;

/** Clocks' differences found from collectives with known times. */
class ClockOffsetsTest {
  private static final RecordedProcess A = new RecordedProcess("a", 1);
  private static final RecordedProcess B = new RecordedProcess("b", 1);
  private static final RecordedProcess C = new RecordedProcess("c", 1);

  private static Span span(RecordedProcess process, long call, long begin, long end) {
    return new Span(process, 7, "rank", "all_reduce", call, begin, 0, end, Map.of());
  }

  @Test
  void clocksThatAgreeAreNotMoved() {
    List<Span> spans = List.of(span(A, 1, 100, 250), span(B, 1, 200, 260));
    assertEquals(Map.of("a", 0L, "b", 0L), ClockOffsets.of(spans).hosts());
  }

  /** B's call ends before A's begins: B's clock is at least 900 behind. */
  @Test
  void theSmallestCorrectionIsTaken() {
    List<Span> spans = List.of(span(A, 1, 1000, 1100), span(B, 1, 50, 100));
    assertEquals(Map.of("a", 0L, "b", 900L), ClockOffsets.of(spans).hosts());
    List<Span> ahead = List.of(span(A, 1, 50, 100), span(B, 1, 1000, 1100));
    assertEquals(Map.of("a", 0L, "b", -900L), ClockOffsets.of(ahead).hosts());
  }

  /** With random true times and wrong clocks, no call ends before another rank's begins. */
  @Test
  void noCallEndsBeforeAnotherRankBeginsIt() {
    long seed = Long.getLong("nccl4j.seed", 1);
    Random random = new Random(seed);
    for (int round = 0; round < 200; round++) {
      long[] wrong = {0, random.nextInt(2_000_000) - 1_000_000, random.nextInt(2_000) - 1_000};
      List<Span> spans = new ArrayList<>();
      long now = 1_000_000_000L;
      for (int call = 1; call <= 20; call++) {
        long[] begins = new long[3];
        long last = 0;
        for (int p = 0; p < 3; p++) {
          begins[p] = now + random.nextInt(500);
          last = Math.max(last, begins[p]);
        }
        long ends = last;
        for (int p = 0; p < 3; p++) {
          long end = last + 1 + random.nextInt(300);
          ends = Math.max(ends, end);
          spans.add(span(List.of(A, B, C).get(p), call, begins[p] + wrong[p], end + wrong[p]));
        }
        now = ends;
      }
      ClockOffsets offsets = ClockOffsets.of(spans);
      for (Span one : spans) {
        for (Span other : spans) {
          assertTrue(
              one.call() != other.call()
                  || one.endNanos() + offsets.of(one) >= other.beginNanos() + offsets.of(other),
              "seed " + seed + ", round " + round);
        }
      }
    }
  }

  private static final RecordedProcess SECOND = new RecordedProcess("a", 2);

  /** Where a process seems to be late, its host's clock is still the same. */
  @Test
  void processesOfOneHostAreNotMoved() {
    List<Span> spans =
        List.of(
            span(A, 1, 0, 100),
            span(A, 2, 200, 300),
            span(SECOND, 1, 150, 160),
            span(SECOND, 2, 210, 300));
    ClockOffsets offsets = ClockOffsets.of(spans);
    assertEquals(Map.of("a", 0L), offsets.hosts());
    assertEquals(0, offsets.early(), "less than the resolution");
  }

  private static final long MILLI = 1_000_000;

  /** Calls of 20 us, one every 100 us, that ranks of hosts enter and leave some us apart. */
  private static List<Span> calls(int hosts, int processes, int calls, LongBinaryOperator clock) {
    Random random = new Random(Long.getLong("nccl4j.seed", 1));
    List<Span> spans = new ArrayList<>();
    for (int call = 1; call <= calls; call++) {
      long now = call * MILLI / 10;
      for (int host = 0; host < hosts; host++) {
        long wrong = clock.applyAsLong(host, now);
        for (int pid = 1; pid <= processes; pid++) {
          long begin = now + random.nextInt(5_000);
          long end = now + 20_000 + random.nextInt(5_000);
          RecordedProcess process = new RecordedProcess("h" + host, pid);
          spans.add(span(process, call, begin + wrong, end + wrong));
        }
      }
    }
    return spans;
  }

  private static void assertOffsets(ClockOffsets offsets, int hosts, LongUnaryOperator right) {
    for (int host = 1; host < hosts; host++) {
      long found = offsets.hosts().get("h" + host) - offsets.hosts().get("h0");
      long wrong = found - right.applyAsLong(host);
      assertTrue(Math.abs(wrong) <= 50_000, "host " + host + " is wrong by " + wrong + " ns");
    }
  }

  /** A process is held between the begin of a launch and the time that is taken of it. */
  @Test
  void aCallWithWrongTimesChangesLittleAndIsTold() {
    int hosts = 8;
    List<Span> spans = calls(hosts, 8, 200, (host, now) -> 5 * host * MILLI);
    Span held = spans.get(1000);
    spans.set(
        1000,
        span(held.process(), held.call(), held.beginNanos() + MILLI, held.endNanos() + MILLI));
    ClockOffsets offsets = ClockOffsets.of(spans);
    assertOffsets(offsets, hosts, host -> -5 * host * MILLI);
    assertEquals(1, offsets.early());
    assertTrue(offsets.earlyNanos() > 900_000, offsets.toString());
    String said = offsets.text().get(offsets.text().size() - 1);
    assertTrue(said.startsWith("1 of 200 collectives end on a rank up to "), said);
  }

  /** By 50 millionths, half a millisecond in ten seconds: 20 times as long as a call. */
  @Test
  void ofDriftingClocksTheMiddleIsTakenAndTheDriftIsTold() {
    int hosts = 6;
    int calls = 100_000;
    long middle = calls / 2 * MILLI / 10;
    LongBinaryOperator clock = (host, now) -> host * MILLI + host * now / 100_000;
    ClockOffsets offsets = ClockOffsets.of(calls(hosts, 1, calls, clock));
    assertOffsets(offsets, hosts, host -> -clock.applyAsLong(host, middle));
    assertTrue(offsets.early() > calls / 2, offsets.toString());
    assertTrue(offsets.text().toString().contains("clocks drift"), offsets.text().toString());
  }

  @Test
  void manyHosts() {
    int hosts = 64;
    ClockOffsets offsets = ClockOffsets.of(calls(hosts, 2, 200, (host, now) -> -host * MILLI));
    assertOffsets(offsets, hosts, host -> host * MILLI);
    assertEquals(0, offsets.early(), offsets.toString());
    assertEquals(200, offsets.calls());
  }

  @Test
  void whatHasNoCallInCommonStays() {
    List<Span> spans = List.of(span(A, 1, 1000, 1100), span(B, 0, 5, 6), span(C, 2, 7, 8));
    assertEquals(Map.of("a", 0L, "b", 0L, "c", 0L), ClockOffsets.of(spans).hosts());
  }
}
