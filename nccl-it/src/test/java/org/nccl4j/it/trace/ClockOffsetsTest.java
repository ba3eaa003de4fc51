package org.nccl4j.it.trace;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.nccl4j.it.trace.Span.RecordedProcess;

/** Clocks' differences found from collectives with known times. */
class ClockOffsetsTest {
  private static final RecordedProcess A = new RecordedProcess("a", 1);
  private static final RecordedProcess B = new RecordedProcess("b", 1);
  private static final RecordedProcess C = new RecordedProcess("c", 1);

  private static Span span(RecordedProcess process, long call, long begin, long end) {
    return new Span(process, 7, "rank", "all_reduce", call, begin, end, Map.of());
  }

  @Test
  void clocksThatAgreeAreNotMoved() {
    List<Span> spans = List.of(span(A, 1, 100, 250), span(B, 1, 200, 260));
    assertEquals(Map.of(A, 0L, B, 0L), ClockOffsets.of(spans));
  }

  /** B's call ends before A's begins: B's clock is at least 900 behind. */
  @Test
  void theSmallestCorrectionIsTaken() {
    List<Span> spans = List.of(span(A, 1, 1000, 1100), span(B, 1, 50, 100));
    assertEquals(Map.of(A, 0L, B, 900L), ClockOffsets.of(spans));
    List<Span> ahead = List.of(span(A, 1, 50, 100), span(B, 1, 1000, 1100));
    assertEquals(Map.of(A, 0L, B, -900L), ClockOffsets.of(ahead));
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
      Map<RecordedProcess, Long> offsets = ClockOffsets.of(spans);
      for (Span one : spans) {
        for (Span other : spans) {
          assertTrue(
              one.call() != other.call()
                  || one.endNanos() + offsets.get(one.process())
                      >= other.beginNanos() + offsets.get(other.process()),
              "seed " + seed + ", round " + round);
        }
      }
    }
  }

  @Test
  void whatHasNoCallInCommonStays() {
    List<Span> spans = List.of(span(A, 1, 1000, 1100), span(B, 0, 5, 6), span(C, 2, 7, 8));
    assertEquals(Map.of(A, 0L, B, 0L, C, 0L), ClockOffsets.of(spans));
  }
}
