package org.nccl4j.api.bootstrap;

import java.util.ArrayList;
import java.util.List;

/**
 * The ways on which a rank hears of failures and passes them on: the roots that it is connected to,
 * and, once one of these has gone, its neighbours in the ring. What comes by one way goes on by all
 * the others, so it gets from one root's ranks to another's. Any thread.
 */
final class FailurePaths {
  private final RankMonitor monitor;
  private final List<ControlLink> roots = new ArrayList<>();
  private RingLink ring;

  FailurePaths(RankMonitor monitor) {
    this.monitor = monitor;
  }

  /** Before anything is connected. */
  void add(ControlLink root) {
    roots.add(root);
  }

  /** Before anything is connected. */
  void set(RingLink neighbours) {
    ring = neighbours;
  }

  /** Whether all roots can still be told, so that the ring need not be. */
  boolean rootsAlive() {
    return roots.stream().allMatch(ControlLink::alive);
  }

  /**
   * Takes note of a failure outside, and passes it on if it is the first.
   *
   * @param source the link or connection that it came by
   */
  void heard(Failure failure, Object source) {
    if (monitor.failedOutside(failure.toException())) {
      passOn(failure, source);
    }
  }

  /** Tells of a failure of this rank. */
  void tell(Failure failure) {
    passOn(failure, null);
  }

  private void passOn(Failure failure, Object source) {
    for (ControlLink root : roots) {
      if (root != source && root.alive()) {
        root.tell(failure);
      }
    }
    if (!rootsAlive()) {
      ring.tell(failure, source);
    }
  }
}
