package org.nccl4j.api.bootstrap;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.bootstrap.root.FailureMessage;

/**
 * Receives failures and forwards them: over the roots that the rank is connected to and, once one
 * of these has ended or may end, over its neighbours in the ring. A failure that arrives over one
 * connection is forwarded over all others, so it passes from one root's ranks to another's. Any
 * thread.
 */
final class FailureBroadcast {
  private final RankMonitor monitor;
  private final List<RootConnection> roots = new ArrayList<>();
  private RingConnection ring;

  FailureBroadcast(RankMonitor monitor) {
    this.monitor = monitor;
  }

  /** Before anything is connected. */
  void add(RootConnection root) {
    roots.add(root);
  }

  /** Before anything is connected. */
  void set(RingConnection neighbours) {
    ring = neighbours;
  }

  /** True if all roots are still connected, so that the ring is not needed. */
  boolean rootsAlive() {
    return roots.stream().allMatch(RootConnection::alive);
  }

  /**
   * Takes note of a failure outside, and passes it on if it is the first.
   *
   * @param source the link or connection that it came by
   */
  void heard(FailureMessage failure, Object source) {
    if (monitor.failedOutside(failure.toException())) {
      passOn(failure, source);
    }
  }

  /** Tells of a failure of this rank. */
  void tell(FailureMessage failure) {
    passOn(failure, null);
  }

  private void passOn(FailureMessage failure, Object source) {
    for (RootConnection root : roots) {
      if (root != source && root.alive()) {
        root.tell(failure);
      }
    }
    if (!roots.stream().allMatch(RootConnection::stays)) {
      ring.tell(failure, source);
    }
  }
}
