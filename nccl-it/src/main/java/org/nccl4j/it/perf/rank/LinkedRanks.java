package org.nccl4j.it.perf.rank;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.TimeoutException;

/** Ranks behind links: gives an order to all, then collects the answers. Used by one thread. */
final class LinkedRanks implements Ranks {
  private static final Duration TURN = Duration.ofMillis(250);
  private static final Duration GRACE = Duration.ofSeconds(10);

  private final List<RankLink> links;
  private boolean broken;

  LinkedRanks(List<RankLink> links) {
    this.links = List.copyOf(links);
  }

  @Override
  public Reply one(int rank, Command order, Duration patience) {
    give(rank, order);
    return collect(List.of(rank), patience).get(0);
  }

  @Override
  public List<Reply> all(Command order, Duration patience) {
    List<Integer> everyone = new ArrayList<>();
    for (int rank = 0; rank < links.size(); rank++) {
      give(rank, order);
      everyone.add(rank);
    }
    return collect(everyone, patience);
  }

  private void give(int rank, Command order) {
    try {
      links.get(rank).give(order);
    } catch (NcclException e) {
      throw broken(e);
    }
  }

  private List<Reply> collect(List<Integer> ranks, Duration patience) {
    Reply[] answers = new Reply[ranks.size()];
    long deadline = System.nanoTime() + patience.toNanos();
    NcclException failure = null;
    int open = ranks.size();
    while (open > 0) {
      for (int i = 0; i < answers.length; i++) {
        if (answers[i] == null) {
          long left = deadline - System.nanoTime();
          if (left <= 0) {
            throw broken(silent(ranks, answers, patience, failure));
          }
          answers[i] = pollOnce(ranks.get(i), left, open);
          open -= answers[i] == null ? 0 : 1;
          NcclException told = failureOf(ranks.get(i), answers[i]);
          if (told != null) {
            // The others hear of it from the engine; the first cause may be among their answers.
            deadline = Math.min(deadline, System.nanoTime() + GRACE.toNanos());
            failure = firstCause(failure, told);
          }
        }
      }
    }
    if (failure != null) {
      throw broken(failure);
    }
    return List.of(answers);
  }

  private Reply pollOnce(int rank, long leftNanos, int open) {
    try {
      long turn = open == 1 ? leftNanos : Math.min(leftNanos, TURN.toNanos());
      return links.get(rank).poll(Duration.ofNanos(turn));
    } catch (NcclException e) {
      throw broken(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw broken(
          new InternalErrorException(
              "the coordinator was interrupted while it waited for rank " + rank,
              "run the command again",
              e));
    }
  }

  private static NcclException failureOf(int rank, Reply answer) {
    return answer instanceof Reply.Failed failed ? failed.at(rank) : null;
  }

  private static NcclException firstCause(NcclException known, NcclException told) {
    boolean better =
        known == null || (known instanceof RemoteException && !(told instanceof RemoteException));
    return better ? told : known;
  }

  private NcclException silent(
      List<Integer> ranks, Reply[] answers, Duration patience, NcclException failure) {
    StringBuilder who = new StringBuilder();
    for (int i = 0; i < answers.length; i++) {
      if (answers[i] == null) {
        who.append(who.isEmpty() ? "" : "\n").append("rank ").append(ranks.get(i)).append(": ");
        who.append(links.get(ranks.get(i)).lastWords());
      }
    }
    if (failure != null) {
      return failure.within(failure.problem() + "; and these ranks do not answer:\n" + who);
    }
    return new TimeoutException(
        "no answer within " + patience.toSeconds() + " s\n" + who,
        "see what the ranks above wait for; -T allows them more time");
  }

  private NcclException broken(NcclException e) {
    broken = true;
    return e;
  }

  @Override
  public void close() {
    if (!broken) {
      try {
        all(new Command.Leave(), GRACE);
      } finally {
        links.forEach(RankLink::close);
      }
    } else {
      links.forEach(RankLink::close);
    }
  }
}
