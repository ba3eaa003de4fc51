package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.observe.SimulatedRing;
import org.nccl4j.api.observe.span.JobTrace;
import org.nccl4j.api.observe.span.RecordedRank;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.SystemErrorException;

/** A recording of a job through its roots, without communicators: ranks are threads. */
@Timeout(600)
class JobTraceTest {
  private static final Duration LONG = Duration.ofSeconds(200);
  private static final int RANKS = 6;
  private static final int MANY = 1_000_000;

  /** Said of a root without an answer. */
  private static final String QUERIED = "cannot be queried";

  /** On a busy machine an answer may come after the root's second, and then it is lost. */
  private static final int MOST_RECORDINGS = 10;

  private final List<RecordedRank> recorded =
      IntStream.range(0, RANKS).mapToObj(RecordedRank::new).toList();

  /** Of roots that all ranks join in the end, since they would stay otherwise. */
  private List<BootstrapId> ids = List.of();

  private List<Bootstrap> ranks = List.of();

  private static BootstrapId newId() {
    return BootstrapRoot.create(Ranks.loopback(Map.of("NCCL4J_JOB_STATE", "1")), LONG);
  }

  private void startRoots(int count) {
    ids = Stream.generate(JobTraceTest::newId).limit(count).toList();
  }

  private void join() {
    ranks =
        Ranks.run(RANKS, rank -> TcpBootstrap.join(Ranks.request(ids, RANKS, rank, LONG))).stream()
            .map(Ranks.Ended::get)
            .toList();
    ranks.forEach(each -> each.onAsked(recorded.get(each.rank())::answer));
  }

  @AfterEach
  void close() {
    ranks.forEach(Bootstrap::close);
  }

  /**
   * Begins when no earlier recording is left. On a busy machine some ranks may not answer within
   * the root's second at first.
   */
  private JobTrace begin(int mostSpans) {
    recorded.forEach(RecordedRank::forget);
    JobTrace trace = JobTrace.begin(ids, Ranks.LOOPBACK, mostSpans);
    long end = System.nanoTime() + LONG.toNanos();
    while (!recorded.stream().allMatch(RecordedRank::isRecorded) && System.nanoTime() < end) {
      trace.look();
    }
    return trace;
  }

  /** Begins once a root answers in time. */
  private static JobTrace begin(SimulatedRoots roots) {
    long end = System.nanoTime() + LONG.toNanos();
    while (true) {
      try {
        return JobTrace.begin(roots.ids(), Ranks.LOOPBACK, MANY);
      } catch (SystemErrorException e) {
        if (System.nanoTime() > end) {
          throw e;
        }
      }
    }
  }

  private static List<Long> numbers(JobTrace trace, int rank) {
    return trace.spans().stream()
        .filter(each -> each.span().rank() == rank)
        .map(each -> each.span().number())
        .toList();
  }

  /** More than a message has room for, of the ranks of two roots. */
  @Test
  void theOperationsOfAllRanksCome() {
    startRoots(2);
    join();
    long first;
    JobTrace trace;
    int recordings = 0;
    do {
      recorded.forEach(each -> each.add(3));
      first = recorded.get(0).added() + 1;
      trace = begin(MANY);
      recorded.forEach(each -> each.add(9000));
      assertTrue(trace.look());
      recorded.forEach(each -> each.add(1));
      trace.end();
      recordings++;
    } while (recordings < MOST_RECORDINGS && !trace.missing().isEmpty());
    List<Long> expected = LongStream.rangeClosed(first, first + 9000).boxed().toList();
    for (int rank = 0; rank < RANKS; rank++) {
      assertEquals(expected, numbers(trace, rank));
      assertFalse(recorded.get(rank).isRecorded());
    }
    assertEquals(List.of(), trace.missing());
    assertEquals(
        ProcessHandle.current().pid(), trace.spans().get(0).process().pid(), "where they were");
    ranks.forEach(Bootstrap::checkFailure);
  }

  private static void assertMissingOfRank2(JobTrace trace, String why) {
    assertEquals(1, trace.missing().size(), trace.missing().toString());
    String missing = trace.missing().get(0);
    assertTrue(missing.startsWith("rank 2 (process "), missing);
    assertTrue(missing.contains(why), missing);
  }

  @Test
  void operationsOfAnAnswerThatIsLostAreCounted() {
    String lost = " lost 5 operations: ";
    startRoots(2);
    join();
    JobTrace trace;
    int recordings = 0;
    do {
      trace = begin(MANY);
      recorded.forEach(each -> each.add(5));
      recorded.get(2).loseAnAnswer();
      recorded.get(2).add(4);
      trace.end();
      recordings++;
    } while (recordings < MOST_RECORDINGS
        && !(trace.missing().size() == 1 && trace.missing().get(0).contains(lost)));
    assertEquals(4, numbers(trace, 2).size());
    assertMissingOfRank2(trace, lost);
  }

  /** As after its observer's host was still for longer than the ranks record without a question. */
  @Test
  void operationsBeforeAndAfterAnInterruptionStay() {
    startRoots(2);
    join();
    List<Long> expected;
    JobTrace trace;
    int recordings = 0;
    do {
      trace = begin(MANY);
      long first = recorded.get(2).added() + 1;
      recorded.get(2).add(1000);
      trace.look();
      recorded.get(2).forget();
      recorded.get(2).add(50); // in no recording
      trace.look();
      long again = recorded.get(2).added() + 1;
      recorded.get(2).add(7);
      trace.end();
      expected =
          LongStream.concat(
                  LongStream.range(first, first + 1000), LongStream.range(again, again + 7))
              .boxed()
              .toList();
      recordings++;
    } while (recordings < MOST_RECORDINGS
        && !(trace.missing().size() == 1 && numbers(trace, 2).equals(expected)));
    assertEquals(expected, numbers(trace, 2));
    assertMissingOfRank2(trace, " was suspended, or not asked for 15 s: operations until");
  }

  @Test
  void aRankThatRecordsNoMoreAtTheEndIsNamed() {
    String expected = "ended its recording early";
    startRoots(2);
    join();
    JobTrace trace;
    int recordings = 0;
    do {
      trace = begin(MANY);
      recorded.get(2).add(4);
      recorded.get(2).forget();
      trace.end();
      recordings++;
    } while (recordings < MOST_RECORDINGS
        && !(trace.missing().size() == 1 && trace.missing().get(0).contains(expected)));
    assertMissingOfRank2(trace, expected);
  }

  /** Also of a rank that is asked for its last operations twice, by two roots or by one. */
  @ParameterizedTest
  @CsvSource({"2, 0", "1, 9000"})
  void nothingIsMissingOfRanksWithoutOperations(int roots, int operations) {
    startRoots(roots);
    join();
    JobTrace trace;
    int recordings = 0;
    do {
      trace = begin(MANY);
      recorded.get(0).add(operations);
      trace.end();
      recordings++;
    } while (recordings < MOST_RECORDINGS && !trace.missing().isEmpty());
    assertEquals(List.of(), trace.missing());
    assertEquals(operations, trace.spans().size());
  }

  /** As after a pause of its host. */
  @Test
  void aRootThatAnswersAgainIsAskedOn() {
    try (SimulatedRoots roots = new SimulatedRoots(2, 8, new SimulatedRing(8))) {
      String ignored;
      String again;
      boolean goesOn;
      int recordings = 0;
      do {
        JobTrace trace = begin(roots);
        roots.ignoreNext(1);
        goesOn = trace.look();
        ignored = trace.missing().toString();
        goesOn &= trace.look();
        again = trace.missing().toString();
        recordings++;
      } while (recordings < MOST_RECORDINGS
          && !(goesOn && ignored.contains(QUERIED) && !again.contains(QUERIED)));
      assertTrue(goesOn);
      assertTrue(ignored.contains(QUERIED), ignored);
      assertFalse(again.contains(QUERIED), again);
    }
  }

  /** Its ranks have kept their last operations. */
  @Test
  void aRootThatMissesTheLastQuestionIsAskedAgain() {
    try (SimulatedRoots roots = new SimulatedRoots(2, 8, new SimulatedRing(8))) {
      JobTrace trace;
      int recordings = 0;
      do {
        trace = begin(roots);
        roots.ignoreNext(1);
        trace.end();
        recordings++;
      } while (recordings < MOST_RECORDINGS && trace.missing().toString().contains(QUERIED));
      assertFalse(trace.missing().toString().contains(QUERIED), trace.missing() + "");
    }
  }

  @Test
  void aRecordingEndsWithTooManyOperations() {
    startRoots(2);
    join();
    JobTrace trace = begin(100);
    assertFalse(trace.isFull());
    boolean goesOn = true;
    for (int looks = 0; looks < MOST_RECORDINGS && goesOn; looks++) {
      recorded.get(1).add(100);
      goesOn = trace.look();
    }
    assertFalse(goesOn);
    assertTrue(trace.isFull());
  }

  /**
   * A root that is gone, a rank that gives no answer, and ranks of an older version, which send
   * their states.
   */
  @Test
  void rootsAndRanksThatGiveNothingAreNamed() {
    try (SimulatedRoots roots = new SimulatedRoots(2, 8, new SimulatedRing(8))) {
      roots.close(1);
      String other =
          "rank %d (process %1$d on host%1$d) sends no operations: it has another version";
      List<String> expected =
          List.of(
              "ranks that have left, or whose root gives no answer: 4, 5, 6, 7",
              "rank 0 (process 0 on host0) gave no answer",
              other.formatted(1) + " of nccl4j",
              other.formatted(2) + " of nccl4j",
              other.formatted(3) + " of nccl4j");
      JobTrace trace;
      boolean goesOn;
      int recordings = 0;
      do {
        trace = begin(roots);
        goesOn = trace.look();
        trace.end();
        recordings++;
      } while (recordings < MOST_RECORDINGS && !(goesOn && trace.missing().containsAll(expected)));
      assertTrue(goesOn);
      List<String> missing = trace.missing();
      assertEquals(expected, missing.subList(1, missing.size()));
      assertTrue(missing.get(0).contains(roots.ids().get(1).where()), missing.get(0));
      roots.close(0);
      trace.end();
      int looks = 1;
      while (trace.look() && looks < MOST_RECORDINGS) {
        looks++;
      }
      assertTrue(looks < MOST_RECORDINGS, "nobody is there");
      SystemErrorException refused =
          assertThrows(
              SystemErrorException.class, () -> JobTrace.begin(roots.ids(), Ranks.LOOPBACK, MANY));
      assertTrue(refused.getMessage().contains(QUERIED), refused.getMessage());
    }
  }

  @Test
  void aJobThatIsBeingCreatedIsRefused() {
    startRoots(2);
    InvalidUsageException refused =
        assertThrows(InvalidUsageException.class, () -> JobTrace.begin(ids, Ranks.LOOPBACK, MANY));
    assertTrue(refused.getMessage().contains("not all of its ranks have come"));
    join();
  }
}
