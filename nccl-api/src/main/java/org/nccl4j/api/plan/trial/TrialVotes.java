package org.nccl4j.api.plan.trial;

import java.time.Duration;
import java.util.Arrays;
import java.util.BitSet;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.LongSupplier;
import java.util.stream.IntStream;
import org.nccl4j.api.plan.trial.TrialNotice.Type;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.support.Patience;

/**
 * Decisions on trials that are the same on all ranks of a communicator on several machines, by
 * notices over the bootstrap, some periods before the call.
 *
 * <p>Rank 0 proposes a trial, one at a time. Each other rank answers from the bootstrap's thread,
 * whatever it is doing: it agrees if it has not come to the call, and has measured all trials of
 * the shape so far; and says what it has found spent. Once all have agreed rank 0 decides, by the
 * least that a rank has found, and tells all.
 *
 * <p>A rank that has not agreed knows that the trial is not made. Rank 0 decides against a trial to
 * which not all have agreed when it comes to the call itself, or is asked. So ranks wait in one
 * case: a rank has agreed, and comes to the call before it has heard the decision. No agreement by
 * messages is without that case. The rank asks rank 0, whose bootstrap's thread answers at once,
 * and the wait ends with a failure of the communicator too. Later proposals are further ahead.
 *
 * <p>An answer that does not come means no trial; after {@link #MOST_AHEAD} there are none any
 * more. All but {@link #heard}: the thread that launches.
 */
final class TrialVotes {
  /** Periods from a proposal to its call: twice as many after one for which ranks were too late. */
  private static final int LEAST_AHEAD = 1;

  /** Ranks that are too late for that are taken for ranks that do not answer. */
  static final int MOST_AHEAD = 256;

  /** A proposal for calls that do not come is dropped. */
  private static final long DROPPED_NANOS = TimeUnit.SECONDS.toNanos(10);

  private static final long LEAST_INTERVAL_NANOS = TimeUnit.MILLISECONDS.toNanos(10);

  /**
   * From one proposal to the next, for each pair of ranks: roots pass an answer of each on to all.
   */
  private static final long INTERVAL_NANOS = TimeUnit.MICROSECONDS.toNanos(40);

  private static final long ASK_NANOS = TimeUnit.SECONDS.toNanos(1);
  private static final long LOOK_MILLIS = 20;
  private static final int NONE = -1;

  /**
   * The rank that votes.
   *
   * @param communicator its number, which no other has
   * @param patience longest wait for a decision
   */
  record Member(long communicator, int rank, int nRanks, Duration patience) {}

  private final Member member;
  private final LongSupplier nanoTime;
  private volatile TrialChannel channel;

  // What follows is guarded by this, and by shape. No notice is sent with the lock.

  /** The last round whose call this rank has come to. */
  private final int[] entered;

  /** The last round that this rank has agreed to. */
  private final int[] agreed;

  /** The last round that this rank has agreed to and knows the decision of. */
  private final int[] decided;

  /** The last round of which this rank knows that it is made. */
  private final int[] made;

  /** Trials of which this rank has counted the call; {@link #NONE} before the first call. */
  private final int[] tried;

  /** Those whose cost is among what is spent. */
  private final int[] known;

  private final double[] spent;

  // Of rank 0 alone.

  /** The least that a rank had found spent when all had agreed last. */
  private final double[] leastSpent;

  /** The last round that was proposed. */
  private final int[] proposed;

  /** The last one; null before the first. */
  private Proposal proposal;

  private int ahead = LEAST_AHEAD;
  private long proposedNanos;

  /** Ranks that have not answered, so that nothing is tried any more; null before. */
  private List<Integer> silent;

  /** A trial that rank 0 has proposed. */
  private static final class Proposal {
    private final int shape;
    private final int round;
    private final double room;
    private final BitSet voters = new BitSet();

    /** The least that a rank has found spent. */
    private double least;

    /** True until it is decided. */
    private boolean isOpen = true;

    /** True once ranks were too late for it. */
    private boolean isLate;

    Proposal(int shape, int round, double room, double least) {
      this.shape = shape;
      this.round = round;
      this.room = room;
      this.least = least;
    }

    boolean isOf(TrialNotice notice) {
      return shape == notice.shape() && round == notice.round();
    }
  }

  /**
   * A rank's votes.
   *
   * @param shapes the most that are decided on
   * @param nanoTime as {@link System#nanoTime}
   */
  TrialVotes(Member member, int shapes, TrialChannel channel, LongSupplier nanoTime) {
    this.member = member;
    this.nanoTime = nanoTime;
    entered = new int[shapes];
    agreed = new int[shapes];
    decided = new int[shapes];
    tried = new int[shapes];
    made = new int[shapes];
    proposed = new int[shapes];
    for (int[] each : new int[][] {entered, agreed, decided, tried, made, proposed}) {
      Arrays.fill(each, NONE);
    }
    known = new int[shapes];
    spent = new double[shapes];
    leastSpent = new double[shapes];
    over(channel);
  }

  /** Goes on over another channel, as after a suspension. */
  void over(TrialChannel newChannel) {
    channel = newChannel;
    newChannel.listen(this::heard);
  }

  TrialChannel channel() {
    return channel;
  }

  /**
   * Keeps what this rank has found spent.
   *
   * @param knownTrials trials of which it knows that
   * @param allTrials trials so far
   */
  synchronized void tell(int shape, double calls, int knownTrials, int allTrials) {
    spent[shape] = calls;
    known[shape] = knownTrials;
    tried[shape] = allTrials;
  }

  /** True if this rank knows by now that a trial is made. */
  synchronized boolean isMade(int shape, int round) {
    return made[shape] == round;
  }

  /**
   * True if a trial is made, on all ranks; at its call.
   *
   * @param accepts throws if the communicator has failed
   * @throws NcclException if the decision cannot be known
   */
  boolean decide(int shape, int round, Runnable accepts) {
    TrialNotice told = null;
    boolean isMade;
    synchronized (this) {
      entered[shape] = Math.max(entered[shape], round);
      if (hasOpen() && proposal.shape == shape && proposal.round <= round) {
        told = settleLate();
      }
      isMade = isMade(shape, round);
      if (member.rank != 0 && agreed[shape] == round && decided[shape] != round) {
        told = notice(Type.ASKED, shape, round);
      }
    }
    if (told == null) {
      return isMade;
    }
    send(told);
    return told.type() == Type.ASKED ? await(told, accepts) : isMade;
  }

  private boolean await(TrialNotice question, Runnable accepts) {
    long end = nanoTime.getAsLong() + Patience.nanos(member.patience);
    long ask = nanoTime.getAsLong() + ASK_NANOS;
    boolean interrupted = false;
    try {
      while (true) {
        synchronized (this) {
          if (decided[question.shape()] >= question.round()) { // it agrees to others only then
            return isMade(question.shape(), question.round());
          }
          interrupted |= pause();
        }
        accepts.run();
        long now = nanoTime.getAsLong();
        if (now - end > 0) {
          TimeoutException late =
              new TimeoutException(
                  ErrorId.TIMEOUT,
                  "rank %d has waited %s for rank 0's decision on a trial to which it has agreed"
                      .formatted(member.rank, Patience.text(member.patience)),
                  "look at rank 0's process, and at the network to it; unset NCCL4J_TRIALS to try"
                      + " nothing");
          channel.fail(late); // the others may make the trial
          throw late;
        }
        if (now - ask > 0) {
          ask = now + ASK_NANOS;
          send(question);
        }
      }
    } finally {
      if (interrupted) { // the call goes on, since the other ranks' calls do
        Thread.currentThread().interrupt();
      }
    }
  }

  /** Waits for news; true if the thread was interrupted. */
  private synchronized boolean pause() {
    try {
      wait(LOOK_MILLIS);
      return false;
    } catch (InterruptedException e) {
      return true;
    }
  }

  /**
   * Proposes a later trial of a shape, once in each period: rank 0, while no proposal is open and
   * no trial of the shape is to come or to be measured. Trials that would pass the share are not
   * proposed, as far as rank 0 knows what has been spent.
   *
   * @param round of the next call
   */
  void propose(int shape, int round, TrialSchedule schedule, TrialBudget budget) {
    if (member.rank != 0) {
      return;
    }
    TrialNotice told;
    synchronized (this) {
      long now = nanoTime.getAsLong();
      if (hasOpen()) {
        told = now - proposedNanos > DROPPED_NANOS ? settleLate() : null;
      } else {
        boolean may =
            silent == null
                && (proposal == null || now - proposedNanos >= interval())
                && made[shape] <= entered[shape]
                && known[shape] == tried[shape];
        told = may ? proposal(shape, round, schedule, budget, now) : null;
      }
    }
    if (told != null) {
      send(told);
    }
  }

  /**
   * Each rank that votes has its notice carried to all ranks of the bootstrap, and splits that
   * share it, in other processes too, may vote at the same time: all of its ranks, once in each
   * interval.
   */
  private long interval() {
    long nRanks = channel.nRanks();
    return Math.max(LEAST_INTERVAL_NANOS, INTERVAL_NANOS * nRanks * nRanks);
  }

  private boolean hasOpen() {
    return proposal != null && proposal.isOpen;
  }

  /** The first trial that is far enough ahead and has room; null if there is none. */
  private TrialNotice proposal(
      int shape, int next, TrialSchedule schedule, TrialBudget budget, long now) {
    int first = Math.max(next + ahead, proposed[shape] + 1); // answers are to one proposal alone
    int algorithms = schedule.choices().size() - 1;
    for (int round = first; round < first + algorithms; round++) {
      double room = budget.room(schedule.tried(round), schedule.calls(round));
      if (leastSpent[shape] <= room) {
        if (!channel.mayPropose(interval())) {
          return null;
        }
        proposedNanos = now;
        proposed[shape] = round;
        proposal = new Proposal(shape, round, room, spent[shape]);
        return notice(Type.PROPOSED, shape, round);
      }
    }
    return null;
  }

  /** Ranks that have not answered in time, so that rank 0 proposes no more; empty before. */
  synchronized List<Integer> silent() {
    return silent == null ? List.of() : silent;
  }

  /** Takes a notice of another rank; of other kinds none. Any thread. */
  void heard(byte[] bytes) {
    TrialNotice.decode(bytes)
        .filter(notice -> notice.communicator() == member.communicator)
        .filter(notice -> notice.shape() >= 0 && notice.shape() < entered.length)
        .map(this::answer)
        .ifPresent(this::send);
  }

  /** The answer to a notice; null for none. */
  private synchronized TrialNotice answer(TrialNotice heard) {
    return switch (heard.type()) {
      case PROPOSED -> member.rank == 0 ? null : vote(heard);
      case AGREED -> isOpen(heard) ? agreed(heard) : null;
      case NOT_READY -> isOpen(heard) ? settle(false) : null;
      case TOO_LATE -> isOpen(heard) ? settleLate() : null;
      case ASKED -> member.rank == 0 ? decision(heard) : null;
      case MADE, LEFT_OUT -> {
        learn(heard);
        yield null;
      }
    };
  }

  private boolean isOpen(TrialNotice heard) {
    return hasOpen() && proposal.isOf(heard);
  }

  private TrialNotice vote(TrialNotice heard) {
    int shape = heard.shape();
    boolean isOpen = agreed[shape] > decided[shape]; // a decision that has not been heard
    if (entered[shape] >= heard.round()) {
      return notice(Type.TOO_LATE, shape, heard.round());
    }
    if (isOpen || tried[shape] != heard.tried() || known[shape] != tried[shape]) {
      return notice(Type.NOT_READY, shape, heard.round());
    }
    agreed[shape] = heard.round();
    return notice(Type.AGREED, shape, heard.round());
  }

  private TrialNotice agreed(TrialNotice heard) {
    proposal.voters.set(heard.rank());
    proposal.least = Math.min(proposal.least, heard.spent());
    if (proposal.voters.cardinality() < member.nRanks - 1) {
      return null;
    }
    leastSpent[proposal.shape] = proposal.least;
    ahead = Math.max(LEAST_AHEAD, ahead - 1);
    return settle(proposal.least <= proposal.room);
  }

  private TrialNotice decision(TrialNotice asked) {
    if (isOpen(asked)) {
      return settleLate();
    }
    if (proposal != null && proposal.isOf(asked)) {
      late();
    }
    // The last trial that is made is the only one of which a rank may not have heard: it agrees to
    // no other before.
    return decision(asked.shape(), asked.round());
  }

  private void learn(TrialNotice heard) {
    int shape = heard.shape();
    if (agreed[shape] == heard.round()) {
      decided[shape] = heard.round();
      made[shape] = heard.type() == Type.MADE ? heard.round() : made[shape];
      notifyAll();
    }
  }

  /** Ends a proposal that some rank had no time for: there is to be more. */
  private TrialNotice settleLate() {
    if (ahead == MOST_AHEAD) {
      silent =
          IntStream.range(1, member.nRanks)
              .filter(rank -> !proposal.voters.get(rank))
              .boxed()
              .toList();
    }
    late();
    return settle(false);
  }

  private void late() {
    if (!proposal.isLate) {
      proposal.isLate = true;
      ahead = Math.min(MOST_AHEAD, 2 * ahead);
    }
  }

  private TrialNotice settle(boolean isMade) {
    int shape = proposal.shape;
    int round = proposal.round;
    made[shape] = isMade ? round : made[shape];
    proposal.isOpen = false;
    return decision(shape, round);
  }

  private TrialNotice decision(int shape, int round) {
    return notice(isMade(shape, round) ? Type.MADE : Type.LEFT_OUT, shape, round);
  }

  private TrialNotice notice(Type type, int shape, int round) {
    return new TrialNotice(
        member.communicator, type, member.rank, shape, round, tried[shape], spent[shape]);
  }

  private void send(TrialNotice notice) {
    channel.tell(notice.encode());
  }

  /** Drops an open proposal, and hears nothing more. */
  void close() {
    TrialNotice dropped;
    synchronized (this) {
      dropped = hasOpen() ? settle(false) : null;
    }
    if (dropped != null) {
      send(dropped);
    }
    channel.close();
  }
}
