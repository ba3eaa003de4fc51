package org.nccl4j.it.perf.rank;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.TimeoutException;

final class LinkedRanksTest {
  /** For answers that are there, and for those that never come. */
  private static final Duration PATIENCE = Duration.ofSeconds(300);

  private static final Duration SHORT = Duration.ofSeconds(1);

  private static class Fake implements RankLink {
    final Deque<Reply> answers = new ArrayDeque<>();
    NcclException death;
    boolean takesNoOrder;
    Command order;
    boolean closed;

    @Override
    public void give(Command newOrder) {
      if (takesNoOrder) {
        throw death;
      }
      order = newOrder;
    }

    @Override
    public Reply poll(Duration patience) throws InterruptedException {
      if (death != null) {
        throw death;
      }
      if (answers.isEmpty()) {
        Thread.sleep(Math.min(patience.toMillis(), 20));
      }
      return answers.poll();
    }

    @Override
    public String lastWords() {
      return "is at Somewhere.java";
    }

    @Override
    public void close() {
      closed = true;
    }
  }

  private final Fake first = new Fake();
  private final Fake second = new Fake();
  private final LinkedRanks ranks = new LinkedRanks(List.of(first, second));

  private static Reply.Failed failed(ErrorId id, String problem) {
    return new Reply.Failed(id, problem, "mend it", "");
  }

  @Test
  void answersComeByRank() {
    first.answers.add(new Reply.Took(1));
    second.answers.add(new Reply.Took(2));
    assertEquals(
        List.of(new Reply.Took(1), new Reply.Took(2)),
        ranks.all(new Command.CreateId(Library.OURS), PATIENCE));
  }

  @Test
  void silentRankIsNamedWithWhereItIs() {
    first.answers.add(new Reply.Took(1));
    TimeoutException e =
        assertThrows(
            TimeoutException.class, () -> ranks.all(new Command.CreateId(Library.OURS), SHORT));
    assertTrue(e.problem().contains("rank 1: is at Somewhere.java"), e.problem());
    assertTrue(!e.problem().contains("rank 0"), e.problem());
  }

  @Test
  void firstCauseWinsOverWhatOthersHeard() {
    first.answers.add(failed(ErrorId.REMOTE, "rank 1 said something"));
    second.answers.add(failed(ErrorId.ARGUMENT, "the buffer is too small"));
    InvalidArgumentException e =
        assertThrows(
            InvalidArgumentException.class,
            () -> ranks.all(new Command.CreateId(Library.OURS), PATIENCE));
    assertEquals("rank 1: the buffer is too small", e.problem());
    assertEquals("mend it", e.remedy());
  }

  @Test
  void aDefectIsShownWithItsStackTrace() {
    RankLink broken =
        new Fake() {
          @Override
          public void give(Command newOrder) {
            answers.add(new RankWorker(null, null).obey(newOrder));
          }
        };
    LinkedRanks one = new LinkedRanks(List.of(broken));
    NcclException e =
        assertThrows(
            InternalErrorException.class, () -> one.all(new Command.Explain(null), PATIENCE));
    assertTrue(e.problem().startsWith("rank 0: java.lang."), e.problem());
    assertTrue(e.problem().contains("\tat org.nccl4j.it"), e.problem());
    assertEquals("report this as a defect", e.remedy());
  }

  @Test
  void otherErrorsAreShownWithout() {
    Reply.Failed failed = new Reply.Failed(ErrorId.ARGUMENT, "too small", "mend it", "\tat X");
    assertEquals("rank 3: too small", failed.at(3).problem());
  }

  @Test
  void aRankThatIsSilentAfterAFailureIsNamedToo() {
    first.answers.add(failed(ErrorId.TIMEOUT, "waited for rank 1"));
    TimeoutException e =
        assertThrows(
            TimeoutException.class, () -> ranks.all(new Command.CreateId(Library.OURS), SHORT));
    assertTrue(e.problem().contains("rank 0: waited for rank 1"), e.problem());
    assertTrue(e.problem().contains("rank 1: is at Somewhere.java"), e.problem());
  }

  @Test
  void deadRankIsReportedAtOnce() {
    second.death = new RemoteException("rank 1 (process 7) ended with status 137", "look");
    RemoteException e =
        assertThrows(
            RemoteException.class,
            () -> ranks.all(new Command.CreateId(Library.OURS), Duration.ofMinutes(9)));
    assertTrue(e.problem().contains("process 7"), e.problem());
  }

  @Test
  void brokenRanksAreEndedWithoutAsking() {
    second.death = new RemoteException("rank 1 died", "look");
    assertThrows(
        RemoteException.class, () -> ranks.all(new Command.CreateId(Library.OURS), PATIENCE));
    ranks.close();
    assertTrue(first.closed && second.closed);
    assertTrue(first.order instanceof Command.CreateId);
  }

  @Test
  void whoIsDeadWhenItIsGivenAnOrderBreaksThemToo() {
    second.death = new RemoteException("rank 1 died", "look");
    second.takesNoOrder = true;
    assertThrows(
        RemoteException.class, () -> ranks.all(new Command.CreateId(Library.OURS), PATIENCE));
    ranks.close();
    assertTrue(first.closed && second.closed);
  }

  @Test
  void soundRanksAreAskedToLeave() {
    first.answers.add(new Reply.Left());
    second.answers.add(new Reply.Left());
    ranks.close();
    assertTrue(first.order instanceof Command.Leave && first.closed && second.closed);
  }
}
