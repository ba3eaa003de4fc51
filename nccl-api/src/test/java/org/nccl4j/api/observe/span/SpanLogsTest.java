package org.nccl4j.api.observe.span;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.bootstrap.root.RankState;
import org.nccl4j.api.observe.InitTimes;
import org.nccl4j.api.observe.ProxySpans;
import org.nccl4j.api.spi.TransportContext;

/** A rank's recordings for observers, by the times and questions of a test. */
class SpanLogsTest {
  private final Object job = new Object();

  private SpanMessage ask(long recording, boolean goesOn, long nanos) throws IOException {
    byte[] bytes = SpanLogs.answer(job, new SpanQuestion(recording, goesOn), nanos);
    assertTrue(bytes.length <= RankState.MAX_BYTES, bytes.length + " bytes");
    return SpanMessage.decode(bytes);
  }

  private void add(int count) {
    for (int n = 1; n <= count; n++) {
      OperationSpan span = RecordedRank.span(0, n);
      SpanLogs.of(job).forEach(log -> log.add(span, 0, span.beginNanos() + 100));
    }
  }

  @Test
  void aRecordingLastsFromTheFirstQuestionToTheLast() throws IOException {
    add(1);
    assertEquals(0, ask(1, true, 0).spans().size());
    add(2);
    SpanMessage two = ask(1, true, 0);
    assertEquals(List.of(1L, 2L), two.spans().stream().map(OperationSpan::number).toList());
    assertEquals(0, two.sentBefore());
    add(3);
    SpanMessage last = ask(1, false, 0);
    assertEquals(3, last.spans().size());
    assertEquals(2, last.sentBefore());
    assertEquals(List.of(), SpanLogs.of(job));
    assertFalse(ask(1, false, 0).records(), "nothing begins with a last question");
  }

  @Test
  void itEndsWhenNobodyAsks() throws IOException {
    ask(1, true, 0);
    ask(2, true, 5);
    SpanLogs.endOverdue(SpanLogs.LEASE_NANOS + 1);
    assertEquals(1, SpanLogs.of(job).size());
    SpanLogs.endOverdue(SpanLogs.LEASE_NANOS + 6);
    assertEquals(0, SpanLogs.of(job).size());
  }

  @Test
  void aRankHasFewRecordings() throws IOException {
    for (int n = 0; n < SpanLogs.MOST; n++) {
      assertTrue(ask(n, true, 0).records());
    }
    assertFalse(ask(SpanLogs.MOST, true, 0).records());
    ask(0, false, 0);
    assertTrue(ask(SpanLogs.MOST, true, 0).records());
    SpanLogs.end(job);
    assertEquals(List.of(), SpanLogs.of(job));
  }

  /** In several messages; those for which there is no room are counted. */
  @Test
  void moreThanARankKeepsAreLeftOut() throws IOException {
    ask(1, true, 0);
    add(SpanLog.ROOM + 17);
    List<OperationSpan> all = new ArrayList<>();
    SpanMessage next;
    do {
      next = ask(1, false, 0);
      assertEquals(all.size(), next.sentBefore());
      assertEquals(17, next.leftOut());
      all.addAll(next.spans());
      assertEquals(SpanLog.ROOM - all.size(), next.left());
    } while (next.left() > 0);
    assertEquals(SpanLog.ROOM, all.size());
    for (int n = 0; n < all.size(); n++) {
      assertEquals(n + 1, all.get(n).number());
      assertEquals(100, all.get(n).endNanos() - all.get(n).beginNanos());
    }
  }

  /** Their steps come faster than they are sent. */
  @Test
  void busyProxiesLeaveRoomForOperations() throws IOException {
    ask(1, true, 0);
    for (int round = 0; round < 2; round++) {
      ProxySpans proxies = new ProxySpans(job, "training", 2, /* rate= */ 0);
      for (int step = 0; step < SpanLog.ROOM + 17; step++) {
        proxies.ended(new TransportContext.EndedStep(5, true, step, 100, false), proxies.begin());
      }
      add(SpanLog.ROOM / 2);
      int operations = 0;
      SpanMessage next;
      do {
        next = ask(1, true, 0);
        operations += (int) next.spans().stream().filter(span -> !span.isBeside()).count();
      } while (next.left() > 0);
      assertEquals(SpanLog.ROOM / 2, operations);
      assertEquals((round + 1) * (SpanLog.ROOM / 2 + 17L), next.leftOut());
    }
    ask(1, false, 0);
  }

  /** Where an observer records the rank, and nowhere else. */
  @Test
  void creationsAndProxiesAreAdded() throws IOException {
    ProxySpans proxies = new ProxySpans(job, "training", 2, /* rate= */ 0);
    assertEquals(0, new ProxySpans(new Object(), "none", 0, 0).begin());
    assertEquals(0, proxies.begin());
    ask(1, true, 0);
    assertTrue(SpanLogs.areAny());
    new ProxySpans(new Object(), "of another job", 0, 0)
        .ended(new TransportContext.EndedStep(1, true, 7, 100, false), 5);
    long begin = proxies.begin();
    proxies.ended(new TransportContext.EndedStep(5, false, 7, 100, true), begin);
    InitTimes times = new InitTimes("split", 1, job);
    times.begin("graphs");
    times.begin("kernels");
    List<OperationSpan> spans = ask(1, false, 0).spans();
    assertEquals(2, spans.size(), spans.toString());
    OperationSpan step = spans.get(0);
    assertEquals(
        List.of("training", 2, "proxy, recv 5", "recv, zero copy", "", 100L, 5, 7L),
        List.of(
            step.name(),
            step.rank(),
            step.row(),
            step.operation(),
            step.type(),
            step.bytes(),
            step.root(),
            step.number()));
    OperationSpan phase = spans.get(1);
    assertEquals(
        List.of("split", 1, "creation", "graphs", -1),
        List.of(phase.name(), phase.rank(), phase.row(), phase.operation(), phase.root()));
    assertTrue(phase.endNanos() >= phase.beginNanos());
    times.done(System.Logger.Level.TRACE);
    assertFalse(SpanLogs.areAny());
    assertEquals(0, proxies.begin());
  }

  @Test
  void allFieldsTravel() throws IOException {
    Random random = new Random(7);
    SpanMessage.Writer writer = new SpanMessage.Writer();
    List<OperationSpan> spans = new ArrayList<>();
    for (int n = 0; n < 500; n++) {
      long begin = random.nextLong() >>> 1;
      OperationSpan span =
          new OperationSpan(
              random.nextLong(),
              "n\u00e4me \"" + random.nextInt(3),
              random.nextInt(),
              random.nextBoolean() ? "" : "proxy, send " + random.nextInt(3),
              "send",
              "int8",
              random.nextLong(),
              random.nextInt(),
              random.nextLong(),
              1L << random.nextInt(30),
              begin,
              random.nextBoolean() ? 0 : begin + random.nextInt(100),
              begin + random.nextInt(1000));
      spans.add(span);
      assertTrue(writer.add(span));
    }
    SpanMessage read = SpanMessage.decode(writer.done(3, 4, 5));
    assertEquals(new SpanMessage(true, 3, 4, 5, spans), read);
  }

  @Test
  void otherMessagesAreRefused() throws IOException {
    byte[] state = new byte[100];
    assertThrows(IOException.class, () -> SpanMessage.decode(state));
    assertThrows(IOException.class, () -> SpanMessage.decode(new byte[0]));
    ask(1, true, 0);
    add(1);
    byte[] whole = SpanLogs.answer(job, new SpanQuestion(1, false), 0);
    for (int length = 0; length < whole.length; length++) {
      byte[] part = Arrays.copyOf(whole, length);
      assertThrows(IOException.class, () -> SpanMessage.decode(part));
    }
  }

  @Test
  void otherQuestionsAreNotUnderstood() {
    SpanQuestion question = new SpanQuestion(-5, true);
    assertEquals(Optional.of(question), SpanQuestion.decode(question.encode()));
    assertEquals(Optional.empty(), SpanQuestion.decode(new byte[] {1}));
    byte[] other = question.encode();
    other[0]++;
    assertEquals(Optional.empty(), SpanQuestion.decode(other));
  }
}
