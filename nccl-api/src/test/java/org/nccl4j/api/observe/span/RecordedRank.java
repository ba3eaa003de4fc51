package org.nccl4j.api.observe.span;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.List;

/** A rank without operations of its own: recordings of it get those that a test adds. */
public final class RecordedRank {
  private final int rank;

  /** Another one than that of the recordings before. */
  private volatile Object job = new Object();

  private long added;
  private byte[] asked;

  public RecordedRank(int rank) {
    this.rank = rank;
  }

  /** The number of the operation that was added last. */
  public long added() {
    return added;
  }

  /** Answers an observer. */
  public byte[] answer(byte[] question) {
    asked = question;
    return SpanQuestion.decode(question)
        .map(asked -> SpanLogs.answer(job, asked, System.nanoTime()))
        .orElseThrow();
  }

  /** Ends its recordings: one whose last question was lost would stay for a while. */
  public void forget() {
    Object before = job;
    job = new Object();
    SpanLogs.end(before);
  }

  /** Gives an answer that nobody gets. */
  public void loseAnAnswer() {
    answer(asked);
  }

  /** True while its operations are recorded. */
  public boolean isRecorded() {
    return !SpanLogs.of(job).isEmpty();
  }

  /** Adds operations, each of 100 ns, to all recordings. */
  public void add(int count) {
    List<SpanLog> logs = SpanLogs.of(job);
    for (int n = 0; n < count; n++) {
      added++;
      OperationSpan span = span(rank, added);
      logs.forEach(log -> log.add(span, 0, span.beginNanos() + 100));
    }
  }

  /**
   * The operations of a rank since the last question of one recording.
   *
   * @param nanos time of the question
   */
  public static List<OperationSpan> ask(Object job, boolean goesOn, long nanos) throws IOException {
    return spans(SpanLogs.answer(job, new SpanQuestion(1, goesOn), nanos));
  }

  /** The first question of a recording. */
  public static byte[] question() {
    return new SpanQuestion(1, /* goesOn= */ true).encode();
  }

  /** The operations of an answer of a rank that records. */
  public static List<OperationSpan> spans(byte[] answer) throws IOException {
    SpanMessage message = SpanMessage.decode(answer);
    assertTrue(message.records());
    return message.spans();
  }

  static OperationSpan span(int rank, long number) {
    return new OperationSpan(
        7,
        "training",
        rank,
        /* row= */ "",
        number % 2 == 0 ? "all_reduce" : "all_gather",
        "float",
        4096,
        0,
        number,
        1,
        number * 1000,
        0,
        0);
  }
}
