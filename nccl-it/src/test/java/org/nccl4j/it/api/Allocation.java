package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.ThreadMXBean;
import java.lang.management.ManagementFactory;
import java.util.Collection;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;

/**
 * Measures allocation of threads in rounds of the same work. The least of some rounds counts: the
 * JVM allocates for itself now and then, and a busy machine compiles late.
 */
final class Allocation {
  private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();
  private static final int ROUNDS = 30;

  /** Of ranks in several processes. */
  private static final int FEW_ROUNDS = 20;

  /** A round on one rank's thread. */
  interface Round {
    void run() throws Exception;
  }

  private final Queue<Thread> threads;
  private final int operations;
  private final CyclicBarrier round;

  /** Of the threads, once all ranks' own are among them. */
  private long[] ids = {};

  private long before = Long.MIN_VALUE;
  private volatile long least = Long.MAX_VALUE;

  /**
   * Of some ranks.
   *
   * @param operations of a round: one object an operation would be 16 times as many bytes, so fewer
   *     bytes than these are the measurement's own
   * @param others threads that allocate beside the ranks' own
   */
  Allocation(int ranks, int operations, Collection<Thread> others) {
    this.operations = operations;
    threads = new ConcurrentLinkedQueue<>(others);
    // The ranks stop after the same round: it is one look that decides for all.
    round = new CyclicBarrier(ranks, this::look);
  }

  /** Rounds on a rank's thread until in one of them nothing is allocated, or there were many. */
  void measure(Round work) throws Exception {
    threads.add(Thread.currentThread());
    round.await(300, TimeUnit.SECONDS);
    for (int n = 0; n < ROUNDS && least >= operations; n++) {
      work.run();
      round.await(300, TimeUnit.SECONDS);
    }
  }

  /** All rounds, also after one in which nothing is allocated: of ranks in several processes. */
  void measureAll(Round work) throws Exception {
    threads.add(Thread.currentThread());
    round.await(300, TimeUnit.SECONDS);
    for (int n = 0; n < FEW_ROUNDS; n++) {
      work.run();
      round.await(300, TimeUnit.SECONDS);
    }
  }

  void assertNothing() {
    assertTrue(least < operations, least + " bytes by " + operations + " operations");
  }

  private void look() {
    long now = allocated();
    if (before != Long.MIN_VALUE) {
      least = Math.min(least, now - before);
    }
    // The barrier and this look allocate too: what they do is left out of the next round.
    before = allocated();
  }

  /** Of all threads at once, which allocates little itself. */
  private long allocated() {
    if (ids.length != threads.size()) {
      ids = threads.stream().mapToLong(Thread::getId).toArray();
    }
    long sum = 0;
    for (long each : THREADS.getThreadAllocatedBytes(ids)) {
      sum += each;
    }
    return sum;
  }
}
