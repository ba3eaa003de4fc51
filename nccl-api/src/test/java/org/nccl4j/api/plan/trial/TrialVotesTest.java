package org.nccl4j.api.plan.trial;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.plan.trial.TrialNotice.Type;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Protocol;

/** Ranks of several machines that call, measure and hear of each other at their own pace. */
@Timeout(300)
class TrialVotesTest {
  private static final long COMMUNICATOR = 0x5f0c;
  private static final int SHAPES = 3;
  private static final int SHAPE = 1;
  private static final double CHOSEN_TIME = 10;
  private static final Duration PATIENCE = Duration.ofMinutes(5);
  private static final Runnable ACCEPTS = () -> {};

  /** A notice takes at most so many calls of one rank. */
  private static final int LONGEST_WAY = 3000;

  private static TrialSchedule schedule(double... predicted) {
    List<AlgorithmChoice> choices = new ArrayList<>();
    for (double time : predicted) {
      choices.add(new AlgorithmChoice(Algorithm.values()[choices.size()], Protocol.SIMPLE, time));
    }
    return TrialSchedule.of(choices);
  }

  /** The notices on their way: each pair of ranks has its own time, and keeps the order. */
  private static final class Network {
    private boolean mayPropose = true;
    private final List<Rank> ranks = new ArrayList<>();
    private final List<Deque<byte[]>> ways = new ArrayList<>();
    private final Random random;
    private final int nRanks;

    /** Those that are lost, unless a rank waits. */
    private Predicate<TrialNotice> lost = notice -> false;

    private final Map<Type, Integer> told = new TreeMap<>();
    private boolean waits;
    private long nanos;

    Network(int nRanks, Random random) {
      this.nRanks = nRanks;
      this.random = random;
      for (int way = 0; way < nRanks * nRanks; way++) {
        ways.add(new ArrayDeque<>());
      }
    }

    void tell(int from, byte[] bytes) {
      TrialNotice notice = TrialNotice.decode(bytes).orElseThrow();
      told.merge(notice.type(), 1, Integer::sum);
      boolean asks = notice.type() == Type.ASKED;
      if (!asks && !waits && lost.test(notice)) {
        return;
      }
      for (int to = 0; to < nRanks; to++) {
        if (to != from) {
          ways.get(from * nRanks + to).add(bytes);
        }
      }
      if (asks) {
        waits = true;
        deliver(/* most= */ Integer.MAX_VALUE);
        waits = false;
      }
    }

    /** Delivers some of the notices. */
    void deliver(int most) {
      List<Integer> order = new ArrayList<>();
      for (int way = 0; way < ways.size(); way++) {
        order.add(way);
      }
      Collections.shuffle(order, random);
      int left = most;
      boolean any = true;
      while (left > 0 && any) {
        any = false;
        for (int way : order) {
          byte[] bytes = left > 0 ? ways.get(way).poll() : null;
          if (bytes != null) {
            left--;
            any = true;
            ranks.get(way % nRanks).hears.accept(bytes);
          }
        }
      }
    }

    int count(Type type) {
      return told.getOrDefault(type, 0);
    }
  }

  /** A rank with what it has launched, and what it has not measured yet. */
  private static final class Rank implements TrialChannel {
    private final int rank;
    private final Network network;
    private final TrialSchedule schedule;
    private final TrialBudget budget;
    private final double[] times;
    private final Deque<Integer> underWay = new ArrayDeque<>();
    private final List<Long> trials = new ArrayList<>();
    private final int[] tried;
    private final TrialVotes votes;
    private Consumer<byte[]> hears;
    private long calls;
    private double mostBeyond;
    private double last;

    Rank(int rank, Network network, TrialSchedule schedule, double[] times) {
      this.rank = rank;
      this.network = network;
      this.schedule = schedule;
      this.times = times;
      budget = new TrialBudget(schedule);
      tried = new int[times.length];
      votes =
          new TrialVotes(
              new TrialVotes.Member(COMMUNICATOR, rank, network.nRanks, PATIENCE),
              SHAPES,
              this,
              () -> network.nanos);
      network.ranks.add(this);
    }

    @Override
    public int nRanks() {
      return network.nRanks;
    }

    @Override
    public boolean mayPropose(long pauseNanos) {
      return network.mayPropose;
    }

    @Override
    public void tell(byte[] notice) {
      network.tell(rank, notice);
    }

    @Override
    public void listen(Consumer<byte[]> listener) {
      hears = listener;
    }

    @Override
    public void fail(NcclException cause) {
      throw cause;
    }

    @Override
    public void close() {
      hears = notice -> {};
    }

    void call() {
      while (!underWay.isEmpty() && network.random.nextInt(8) > 0) {
        measure(underWay.poll());
      }
      int index = schedule.of(calls);
      int round = schedule.round(calls);
      if (calls == 0) {
        report();
      }
      if (index == TrialSchedule.CHOSEN) {
        votes.propose(SHAPE, round, schedule, budget);
        underWay.add(index);
      } else if (index > TrialSchedule.CHOSEN
          && !budget.isOver()
          && votes.decide(SHAPE, round, ACCEPTS)) {
        trials.add(calls);
        mostBeyond = Math.max(mostBeyond, added() - TrialSchedule.SHARE * (calls + 1));
        budget.tried(index, /* isMeasured= */ true);
        tried[index]++;
        last = times[index] / CHOSEN_TIME - 1;
        underWay.add(index);
        report();
      }
      calls++;
      network.nanos += 20_000 / network.nRanks; // 20 us a call
    }

    /** Now and then other work takes some time, and each rank waits for another time. */
    private void measure(int index) {
      Random random = network.random;
      double wait = random.nextInt(4) == 0 ? 50 * random.nextDouble() : random.nextDouble() / 100;
      budget.measured(index, times[index] * (1 + wait));
      report();
    }

    private void report() {
      votes.tell(SHAPE, budget.spent(), budget.known(), budget.tried());
    }

    /** Time that trials have added, in calls by the chosen algorithm. */
    double added() {
      double added = 0;
      for (int index = 1; index < tried.length; index++) {
        added += tried[index] * (times[index] / CHOSEN_TIME - 1);
      }
      return added;
    }
  }

  private static Network of(int nRanks, TrialSchedule schedule, double[] times, Random random) {
    Network network = new Network(nRanks, random);
    for (int rank = 0; rank < nRanks; rank++) {
      new Rank(rank, network, schedule, times);
    }
    return network;
  }

  /**
   * Has all ranks call, each at its own pace.
   *
   * @param most calls that one is before the others
   */
  private static void run(Network network, long end, int most) {
    Random random = network.random;
    while (network.ranks.stream().anyMatch(rank -> rank.calls < end)) {
      Rank next = network.ranks.get(random.nextInt(network.nRanks));
      long behind = network.ranks.stream().mapToLong(rank -> rank.calls).min().orElseThrow();
      long until = Math.min(end, behind + 1 + random.nextInt(most));
      while (next.calls < until) {
        next.call();
        if (random.nextInt(LONGEST_WAY / 10) == 0) {
          network.deliver(1 + random.nextInt(4));
        }
      }
    }
    network.deliver(Integer.MAX_VALUE);
  }

  private static void assertAlike(Network network, String at) {
    for (Rank rank : network.ranks) {
      assertEquals(network.ranks.get(0).trials, rank.trials, at + ", rank " + rank.rank);
    }
  }

  @Test
  void allRanksDecideAlikeAndWaitAfterCostlyTrials() {
    Random random = new Random(26);
    for (int round = 0; round < 8; round++) {
      TrialSchedule schedule = schedule(CHOSEN_TIME, 11, 12, 13);
      double[] times = {CHOSEN_TIME, 9, 30 * 12 * (1 + random.nextDouble()), 14};
      Network network = of(2 + round % 4, schedule, times, random);
      run(network, /* end= */ 200_000, (int) schedule.period() * 3);
      String at = "round " + round;
      assertAlike(network, at);
      Rank one = network.ranks.get(0);
      for (int index = 1; index < times.length; index++) {
        assertTrue(one.tried[index] >= TrialBudget.FIRST, at + ", algorithm " + index);
      }
      double most = times[2] / CHOSEN_TIME - 1;
      assertTrue(one.added() <= TrialSchedule.SHARE * one.calls + most, at + ": " + one.added());
      // Ranks of which some had other work find a trial cheaper or dearer by a hundredth.
      assertTrue(one.mostBeyond <= 0.03 * one.added(), at + ": " + one.mostBeyond);
    }
  }

  @Test
  void trialsThatCostWhatIsPredictedAreAllMade() {
    TrialSchedule schedule = schedule(CHOSEN_TIME, 11, 12);
    Network network = of(3, schedule, new double[] {CHOSEN_TIME, 11, 12}, new Random(26));
    run(network, 16L * TrialSchedule.TRIALS * schedule.period(), /* most= */ 100);
    assertAlike(network, "");
    assertEquals(TrialSchedule.TRIALS, network.ranks.get(0).tried[1]);
    assertEquals(TrialSchedule.TRIALS, network.ranks.get(0).tried[2]);
    assertEquals(List.of(), network.ranks.get(0).votes.silent());
  }

  /** As while connections of the bootstrap break. */
  @Test
  void lostNoticesPreventTrialsAndNothingElse() {
    Random random = new Random(26);
    int trials = 0;
    for (int round = 0; round < 20; round++) {
      TrialSchedule schedule = schedule(CHOSEN_TIME, 11, 12);
      Network network = of(3, schedule, new double[] {CHOSEN_TIME, 11, 12}, random);
      network.lost = notice -> random.nextInt(4) == 0;
      run(network, /* end= */ 60_000, (int) schedule.period() * 2);
      assertAlike(network, "round " + round);
      trials += network.ranks.get(0).trials.size();
    }
    assertTrue(trials > 20, "trials: " + trials);
  }

  /** Its decisions are lost on their way to ranks that then ask for them. */
  @Test
  void aRankThatHasAgreedAsksForALostDecision() {
    Random random = new Random(26);
    TrialSchedule schedule = schedule(CHOSEN_TIME, 11);
    Network network = of(3, schedule, new double[] {CHOSEN_TIME, 11}, random);
    network.lost = notice -> notice.type() == Type.MADE || notice.type() == Type.LEFT_OUT;
    run(network, /* end= */ 60_000, (int) schedule.period());
    assertAlike(network, "");
    assertTrue(network.count(Type.ASKED) > 0);
    assertFalse(network.ranks.get(0).trials.isEmpty());
  }

  @Test
  void whereOneRankDoesNotAnswerNothingIsTriedAndRankZeroGivesUp() {
    TrialSchedule schedule = schedule(CHOSEN_TIME, 11);
    Network network = of(3, schedule, new double[] {CHOSEN_TIME, 11}, new Random(26));
    network.lost = notice -> notice.rank() == 2;
    run(network, /* end= */ 4L * TrialVotes.MOST_AHEAD * schedule.period(), /* most= */ 50);
    assertAlike(network, "");
    assertEquals(List.of(), network.ranks.get(0).trials);
    assertEquals(List.of(2), network.ranks.get(0).votes.silent());
    assertEquals(0, network.count(Type.MADE));
    int proposed = network.count(Type.PROPOSED);
    run(network, 5L * TrialVotes.MOST_AHEAD * schedule.period(), /* most= */ 50);
    assertEquals(proposed, network.count(Type.PROPOSED));
  }

  /** Two ranks of which the second has agreed to a trial of the next round. */
  private static final class Agreed {
    private final TrialSchedule schedule = schedule(CHOSEN_TIME, 11);
    private final Network network = of(2, schedule, new double[] {CHOSEN_TIME, 11}, new Random(26));
    private final TrialVotes zero = network.ranks.get(0).votes;
    private final TrialVotes other = network.ranks.get(1).votes;
    private final AtomicReference<NcclException> failure = new AtomicReference<>();
    private final TrialVotes alone;
    private Consumer<byte[]> hears;
    private int asked;

    Agreed() {
      other.close();
      alone =
          new TrialVotes(
              new TrialVotes.Member(COMMUNICATOR, /* rank= */ 1, /* nRanks= */ 2, PATIENCE),
              SHAPES,
              new TrialChannel() {
                @Override
                public int nRanks() {
                  return 2;
                }

                @Override
                public boolean mayPropose(long pauseNanos) {
                  return true;
                }

                @Override
                public void tell(byte[] notice) {
                  synchronized (Agreed.this) {
                    asked += TrialNotice.decode(notice).orElseThrow().type() == Type.ASKED ? 1 : 0;
                    Agreed.this.notifyAll();
                  }
                }

                @Override
                public void listen(Consumer<byte[]> listener) {
                  hears = listener;
                }

                @Override
                public void fail(NcclException cause) {
                  failure.set(cause);
                }

                @Override
                public void close() {}
              },
              () -> network.nanos);
      alone.tell(SHAPE, 0, 0, 0);
      hears.accept(notice(Type.PROPOSED, 5));
    }

    static byte[] notice(Type type, int round) {
      return new TrialNotice(COMMUNICATOR, type, 0, SHAPE, round, 0, 0).encode();
    }

    CompletableFuture<Boolean> decideOnAThread(Runnable accepts) throws InterruptedException {
      CompletableFuture<Boolean> decided =
          CompletableFuture.supplyAsync(
              () -> alone.decide(SHAPE, 5, accepts), task -> new Thread(task).start());
      synchronized (this) {
        while (asked == 0) {
          wait();
        }
      }
      return decided;
    }
  }

  @Test
  void aRankThatHasAgreedWaitsForTheDecision() throws Exception {
    Agreed made = new Agreed();
    assertFalse(made.alone.decide(SHAPE, 4, ACCEPTS), "another round");
    CompletableFuture<Boolean> decided = made.decideOnAThread(ACCEPTS);
    made.hears.accept(Agreed.notice(Type.LEFT_OUT, 4));
    made.hears.accept(new byte[] {TrialNotice.KIND});
    made.hears.accept(new byte[] {1, 2, 3});
    assertFalse(decided.isDone());
    made.hears.accept(Agreed.notice(Type.MADE, 5));
    assertTrue(decided.join());
    assertTrue(made.alone.decide(SHAPE, 5, ACCEPTS), "a call that was refused, again");

    Agreed left = new Agreed();
    decided = left.decideOnAThread(ACCEPTS);
    left.hears.accept(Agreed.notice(Type.LEFT_OUT, 5));
    assertFalse(decided.join());
  }

  @Test
  void aFailureEndsTheWait() throws Exception {
    Agreed agreed = new Agreed();
    NcclException failure = new InvalidUsageException("a rank has died", "start it again");
    AtomicReference<NcclException> refusal = new AtomicReference<>();
    CompletableFuture<Boolean> decided =
        agreed.decideOnAThread(
            () -> {
              if (refusal.get() != null) {
                throw refusal.get();
              }
            });
    refusal.set(failure);
    assertSame(failure, assertThrows(CompletionException.class, decided::join).getCause());
    assertEquals(null, agreed.failure.get());
  }

  /** The other ranks' calls go on, so this one does, too. */
  @Test
  void anInterruptedThreadWaitsOn() {
    Agreed agreed = new Agreed();
    Thread.currentThread().interrupt();
    boolean[] told = {false};
    assertTrue(
        agreed.alone.decide(
            SHAPE,
            5,
            () -> {
              if (!told[0]) {
                told[0] = true;
                agreed.hears.accept(Agreed.notice(Type.MADE, 5));
              }
            }));
    assertTrue(Thread.interrupted(), "the flag is set again");
  }

  /** Their ranks' notices go to all ranks of the bootstrap that they share. */
  @Test
  void aCommunicatorWaitsWhileAnotherOfItsBootstrapHasItsTurn() {
    Agreed ranks = new Agreed();
    TrialBudget budget = new TrialBudget(ranks.schedule);
    ranks.zero.tell(SHAPE, 0, 0, 0);
    ranks.network.mayPropose = false;
    ranks.zero.propose(SHAPE, 0, ranks.schedule, budget);
    assertEquals(0, ranks.network.count(Type.PROPOSED));
    ranks.network.mayPropose = true;
    ranks.zero.propose(SHAPE, 1, ranks.schedule, budget);
    assertEquals(1, ranks.network.count(Type.PROPOSED));
  }

  /** Rank 0's process is stopped: the others might make the trial. */
  @Test
  void noAnswerUntilTheDeadlineIsAFailureOfAll() {
    Agreed agreed = new Agreed();
    var late =
        assertThrows(
            TimeoutException.class,
            () ->
                agreed.alone.decide(
                    SHAPE, 5, () -> agreed.network.nanos += PATIENCE.toNanos() / 2));
    assertTrue(late.problem().contains("rank 0's decision"), late.problem());
    assertSame(late, agreed.failure.get());
    assertTrue(agreed.asked > 1, "it asks again");
  }

  /** Without this, a rank that has agreed would wait at its next call. */
  @Test
  void aRankZeroThatClosesDropsItsProposal() {
    Agreed ranks = new Agreed();
    ranks.zero.tell(SHAPE, 0, 0, 0);
    TrialBudget budget = new TrialBudget(ranks.schedule);
    ranks.zero.propose(SHAPE, 4, ranks.schedule, budget);
    assertEquals(1, ranks.network.count(Type.PROPOSED));
    ranks.zero.close();
    assertEquals(1, ranks.network.count(Type.LEFT_OUT));
  }

  @Test
  void onlyOneProposalIsOpenAndOldOnesAreDropped() {
    Agreed ranks = new Agreed();
    TrialBudget budget = new TrialBudget(ranks.schedule);
    ranks.zero.tell(SHAPE, 0, 0, 0);
    ranks.zero.tell(0, 0, 0, 0);
    ranks.zero.propose(SHAPE, 0, ranks.schedule, budget);
    ranks.network.nanos += Duration.ofSeconds(9).toNanos();
    ranks.zero.propose(0, 0, ranks.schedule, budget);
    assertEquals(1, ranks.network.count(Type.PROPOSED));
    ranks.network.nanos += Duration.ofSeconds(2).toNanos();
    ranks.zero.propose(0, 1, ranks.schedule, budget);
    assertEquals(1, ranks.network.count(Type.LEFT_OUT), "the first shape is called no more");
    ranks.zero.propose(0, 2, ranks.schedule, budget);
    assertEquals(2, ranks.network.count(Type.PROPOSED));
  }

  /** Else each proposal would be too late again while calls are faster than notices. */
  @Test
  void onlyAnAgreementBringsProposalsNearer() {
    Agreed ranks = new Agreed();
    TrialBudget budget = new TrialBudget(ranks.schedule);
    Rank zero = ranks.network.ranks.get(0);
    ranks.zero.tell(SHAPE, 0, 0, 0);
    List<Integer> proposed = new ArrayList<>();
    int next = 0;
    for (Type answer :
        List.of(Type.TOO_LATE, Type.TOO_LATE, Type.NOT_READY, Type.NOT_READY, Type.AGREED)) {
      ranks.zero.propose(SHAPE, next, ranks.schedule, budget);
      TrialNotice told = TrialNotice.decode(ranks.network.ways.get(1).peekLast()).orElseThrow();
      assertEquals(Type.PROPOSED, told.type());
      proposed.add(told.round() - next);
      zero.hears.accept(
          new TrialNotice(COMMUNICATOR, answer, 1, SHAPE, told.round(), 0, 0).encode());
      next = told.round() + 1;
      ranks.zero.decide(SHAPE, told.round(), ACCEPTS);
      ranks.network.nanos += Duration.ofSeconds(1).toNanos();
    }
    ranks.zero.propose(SHAPE, next, ranks.schedule, budget);
    proposed.add(
        TrialNotice.decode(ranks.network.ways.get(1).peekLast()).orElseThrow().round() - next);
    assertEquals(List.of(1, 2, 4, 4, 4, 3), proposed);
  }
}
