package org.nccl4j.api.observe;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.device.OrderMismatchException;

/**
 * Finds two communicators whose operations wait for each other, from the recorders of a host and
 * the notices of other hosts: on one rank an operation of the first runs and one of the second is
 * queued behind it, on another rank it is the other way round, and nothing has ended for a while.
 * Neither can ever end.
 */
final class OrderConflict {
  /**
   * Time for which nothing may end before a conflict is assumed, so that no slow operation is taken
   * for one.
   */
  static final long STILL_MILLIS = 2000;

  private final List<RankReport> all;

  OrderConflict(List<RankReport> all) {
    this.all = all;
  }

  /**
   * The conflict that a rank is in.
   *
   * @param communicator the rank's
   */
  Optional<OrderMismatchException> of(long communicator, int rank) {
    return byKernels(communicator, rank).or(() -> byCalls(communicator, rank));
  }

  /**
   * Finds a conflict in the streams in which compared calls wait; needs no word from the kernels.
   * In one stream a call of this communicator waits with a call of another behind it. In another
   * process the two calls are the other way round.
   */
  private Optional<OrderMismatchException> byCalls(long communicator, int rank) {
    for (RankReport mine : all) {
      if (mine.communicator() != communicator || mine.rank() != rank || !waitsInOrder(mine)) {
        continue;
      }
      for (RankReport behind : all) {
        if (behind.communicator() != communicator && isBehind(behind, mine)) {
          for (RankReport running : all) {
            for (RankReport queued : all) {
              if (running.communicator() == behind.communicator()
                  && queued.communicator() == communicator
                  && isBehind(queued, running)) {
                return Optional.of(conflict(mine, behind, running, queued));
              }
            }
          }
        }
      }
    }
    return Optional.empty();
  }

  /** The calls of others that wait behind a rank's own in its stream, as notices to other hosts. */
  List<OrderNotice> waits(long communicator, int rank) {
    List<OrderNotice> waits = new ArrayList<>();
    for (RankReport mine : all) {
      if (mine.communicator() == communicator && mine.rank() == rank) {
        all.stream()
            .filter(behind -> behind.communicator() != communicator && isBehind(behind, mine))
            .map(behind -> wait(mine, behind))
            .forEach(waits::add);
      }
    }
    return waits;
  }

  private static OrderNotice wait(RankReport first, RankReport behind) {
    return new OrderNotice(
        first.communicator(),
        first.front().number(),
        behind.communicator(),
        behind.front().number(),
        first.name(),
        inFront(first, behind));
  }

  /** The conflict of a rank's own waits with the notices of other hosts. */
  static Optional<OrderMismatchException> between(
      List<OrderNotice> waits, OrderNotice.Heard heard) {
    return heard
        .contradicting(waits)
        .map(
            two ->
                conflict(
                    two.get(0).name(), two.get(1).name(), two.get(0).text(), two.get(1).text()));
  }

  private static boolean isBehind(RankReport second, RankReport first) {
    return waitsInOrder(first)
        && waitsInOrder(second)
        && first.process().equals(second.process())
        && first.front().stream() == second.front().stream()
        && first.front().call() < second.front().call();
  }

  private static boolean waitsInOrder(RankReport report) {
    return report.front().call() > 0
        && report.front().stillMillis() >= STILL_MILLIS
        && report.current() != null
        && !report.failed();
  }

  private Optional<OrderMismatchException> byKernels(long communicator, int rank) {
    for (RankReport mine : all) {
      if (mine.communicator() == communicator && mine.rank() == rank && waits(mine)) {
        for (RankReport peer : all) {
          if (peer.communicator() == communicator
              && peer.rank() == mine.waitsFor()
              && isQueued(peer)) {
            return of(mine, peer);
          }
        }
      }
    }
    return Optional.empty();
  }

  /** Another communicator in which the peer waits for the one that waits for the peer here. */
  private Optional<OrderMismatchException> of(RankReport mine, RankReport peer) {
    for (RankReport running : all) {
      if (running.communicator() == mine.communicator()
          || !running.process().equals(peer.process())
          || !waits(running)) {
        continue;
      }
      for (RankReport queued : all) {
        if (queued.communicator() == running.communicator()
            && queued.rank() == running.waitsFor()
            && queued.process().equals(mine.process())
            && isQueued(queued)) {
          return Optional.of(conflict(mine, queued, running, peer));
        }
      }
    }
    return Optional.empty();
  }

  private static OrderMismatchException conflict(
      RankReport mine, RankReport queued, RankReport running, RankReport peer) {
    return conflict(mine.name(), running.name(), inFront(mine, queued), inFront(running, peer));
  }

  private static OrderMismatchException conflict(
      String first, String second, String one, String other) {
    return new OrderMismatchException(
        "communicators %s and %s are used in different orders: %s and %s wait for each other"
            .formatted(first, second, one, other),
        "call the operations of both in the same order on all ranks, or give each communicator its"
            + " own stream, and a split its own connections (withSplitShare(false))");
  }

  private static String inFront(RankReport first, RankReport behind) {
    return "%s of rank %d of %s (%s), with %s of rank %d of %s behind it,"
        .formatted(
            called(first),
            first.rank(),
            first.name(),
            first.process(),
            called(behind),
            behind.rank(),
            behind.name());
  }

  /** Returns the call that has not ended, except the exchange in which the ranks compare it. */
  private static String called(RankReport report) {
    return report.operations().stream()
        .filter(op -> op.number() > report.ended() && !op.label().equals("other"))
        .findFirst()
        .orElse(report.current())
        .text();
  }

  private static boolean waits(RankReport report) {
    return report.current() != null && report.waitsFor() >= 0 && isStill(report);
  }

  private static boolean isQueued(RankReport report) {
    return report.current() != null && report.waitsFor() < 0 && isStill(report);
  }

  private static boolean isStill(RankReport report) {
    return report.stillMillis() >= STILL_MILLIS && !report.failed();
  }
}
