package org.nccl4j.it.net;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.Arrays;
import java.util.PriorityQueue;
import java.util.Queue;
import java.util.Random;

/**
 * A wire that lets some connections go silent at a byte that is given: from then on it takes bytes
 * and passes none on, and closes nothing, as a firewall does that has forgotten the connection.
 */
final class SilentWire extends RelayWire {
  /** The directions in which bytes vanish. */
  enum Direction {
    THERE,
    BACK,
    BOTH
  }

  private final Queue<Long> silentAt;
  private final Direction direction;
  private int silences;

  /**
   * Opens a port before a target.
   *
   * @param silentAt bytes of both directions after which connections go silent: the first that has
   *     the least of them goes silent there, then the first that has the next; others stay
   */
  SilentWire(InetSocketAddress target, Random random, Direction direction, Long... silentAt)
      throws IOException {
    super(target, random, false);
    this.direction = direction;
    this.silentAt = new PriorityQueue<>(Arrays.asList(silentAt));
    start();
  }

  /** Returns how many connections have gone silent. */
  synchronized int silences() {
    return silences;
  }

  @Override
  Fault connected() {
    return new Silence();
  }

  /** A connection's silence, with a count of what has passed in both directions. */
  private final class Silence implements Fault {
    private long passed;
    private boolean silent;

    @Override
    public Passing pass(int got, boolean there) {
      int before = beforeSilence(got);
      boolean vanish = direction != (there ? Direction.BACK : Direction.THERE);
      return new Passing(vanish ? before : got, false);
    }

    private int beforeSilence(int got) {
      synchronized (SilentWire.this) {
        if (silent) {
          return 0;
        }
        Long at = silentAt.peek();
        if (at == null || passed + got < at) {
          passed += got;
          return got;
        }
        silentAt.poll();
        silences++;
        silent = true;
        return (int) Math.max(0, at - passed);
      }
    }
  }
}
