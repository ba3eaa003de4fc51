package org.nccl4j.it.net;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Queue;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;

/**
 * A wire that cuts each connection at a byte that is given: the bytes of both directions count.
 * Bytes that it has read and not passed on are lost.
 */
final class CuttingWire extends RelayWire {
  private final Queue<Long> cutsAt;
  private final AtomicInteger cuts = new AtomicInteger();

  /**
   * Opens a port before a target.
   *
   * @param cutsAt bytes after which the connections are cut, in the order in which they come;
   *     further ones stay
   * @param resets whether a cut is a reset, else an end
   */
  CuttingWire(InetSocketAddress target, Random random, boolean resets, Long... cutsAt)
      throws IOException {
    super(target, random, resets);
    this.cutsAt = new ArrayDeque<>(Arrays.asList(cutsAt));
    start();
  }

  /** Returns how many connections have been cut. */
  int cuts() {
    return cuts.get();
  }

  @Override
  Fault connected() {
    Long cut = cutsAt.poll();
    AtomicLong left = new AtomicLong(cut == null ? Long.MAX_VALUE : cut);
    return (got, there) -> {
      long before = left.getAndAdd(-got);
      if (0 < before && before <= got) {
        cuts.incrementAndGet();
      }
      return new Passing((int) Math.max(0, Math.min(got, before)), before <= got);
    };
  }
}
