package org.nccl4j.device.host.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.host.HostDevice;

/**
 * Several threads add to and run one queue as fast as they can. What must hold whatever they do:
 * every launch runs once, those of one adder in their order, never two at a time, and each sees all
 * that was written before it was added and by those that ran before.
 *
 * <p>Shown to fail, on two cores of x86-64, when in the queue: the position is published before its
 * entry is written; a launch counts as ended before it runs; the lock of those who add, or of those
 * who run, is a load and a store instead of a compare-and-set; the queue takes one launch more than
 * it has entries; the adders' lock is given back before the entry is whole. A plain store in place
 * of a release does not show there, since x86-64 keeps stores in order.
 */
@Timeout(600)
class LaunchQueueStressTest {
  private static final int ADDERS = 3;
  private static final int RUNNERS = 3;
  private static final int LAUNCHES = 40_000;

  /** After so many launches of the first adder the queue begins to grow, or no longer grows. */
  private static final int GROWS = 2_000;

  /** Plain fields throughout: only the queue orders the accesses. */
  private static final class Witness {
    final long[] written = new long[ADDERS];
    final long[] next = new long[ADDERS];
    boolean inside;
    long ran;
    String wrong;

    void run(int adder, long launch) {
      if (inside) {
        wrong = "two launches run at a time";
      }
      inside = true;
      if (next[adder] != launch) {
        wrong = "launch %d of adder %d runs as number %d".formatted(launch, adder, next[adder]);
      }
      if (written[adder] < launch) {
        wrong = "launch %d does not see what was written before it".formatted(launch);
      }
      next[adder] = launch + 1;
      ran++;
      inside = false;
    }
  }

  @RepeatedTest(5)
  void launchesRunOnceInOrderAndAlone() throws Exception {
    LaunchQueue queue = new LaunchQueue();
    Witness witness = new Witness();
    ExecutorService threads = Executors.newFixedThreadPool(ADDERS + RUNNERS);
    List<Future<?>> all = new ArrayList<>();
    for (int a = 0; a < ADDERS; a++) {
      int adder = a;
      StreamOperation operation = (send, recv, ticket) -> witness.run(adder, ticket);
      all.add(threads.submit(() -> addAll(queue, witness, adder, operation)));
    }
    for (int r = 0; r < RUNNERS; r++) {
      boolean givesWay = r == 0;
      all.add(threads.submit(() -> runAll(queue, givesWay)));
    }
    for (Future<?> one : all) {
      one.get(300, TimeUnit.SECONDS);
    }
    threads.shutdown();
    assertNull(queue.takeError());
    assertNull(witness.wrong);
    assertEquals((long) ADDERS * LAUNCHES, witness.ran);
  }

  private static void addAll(
      LaunchQueue queue, Witness witness, int adder, StreamOperation operation) {
    for (long launch = 0; launch < LAUNCHES; launch++) {
      witness.written[adder] = launch;
      if (adder == 0 && launch % GROWS == 0) {
        queue.grow(launch / GROWS % 2 == 0);
      }
      while (!queue.add(operation, null, null, launch)) {
        // As a stream does: who finds the queue full runs its first half.
        if (!queue.run(queue.added() - LaunchQueue.CAPACITY / 2)) {
          Thread.yield();
        }
      }
    }
  }

  private static void runAll(LaunchQueue queue, boolean givesWay) {
    while (queue.ended() < (long) ADDERS * LAUNCHES) {
      if (givesWay ? !queue.runUntilLent(queue.added()) : !lend(queue)) {
        Thread.yield();
      }
    }
  }

  private static boolean lend(LaunchQueue queue) {
    queue.lends(true);
    try {
      return queue.run(queue.added());
    } finally {
      queue.lends(false);
    }
  }

  /**
   * Launches that come just when the dispatcher goes to sleep are not left behind, although nobody
   * synchronizes.
   */
  @Test
  void noLaunchIsLostToADispatcherThatGoesToSleep() {
    Dispatcher dispatcher = new Dispatcher();
    long[] ran = new long[1];
    for (int round = 0; round < 25; round++) {
      // A new one each time: a stream that was once left alone has a thread of its own at once.
      try (HostStream stream = new HostStream(HostDevice.instance(), dispatcher)) {
        await(dispatcher::isAsleep, "the dispatcher does not go to sleep");
        stream.launch((send, recv, ticket) -> ran[0]++, null, null, 0);
        await(stream::isEmpty, "the launch of round " + round + " was left behind");
        assertEquals(round + 1, ran[0]);
      }
    }
  }

  /**
   * One adds and then looks whether the other sleeps; the other says that it sleeps and then looks
   * whether somebody adds. At least one must see the other, or a launch is left behind.
   *
   * <p>Shown to fail when isQuiet looks at the positions alone, or at them first.
   */
  @Test
  void whoAddsAndWhoFallsAsleepDoNotMissEachOther() throws Exception {
    Encounter encounter = new Encounter();
    ExecutorService threads = Executors.newFixedThreadPool(2);
    Future<?> adder = threads.submit(encounter::add);
    Future<?> sleeper = threads.submit(encounter::sleep);
    adder.get(300, TimeUnit.SECONDS);
    sleeper.get(300, TimeUnit.SECONDS);
    threads.shutdown();
    assertEquals(0, encounter.missed);
  }

  /** Two threads that meet again and again, each time at the same moment as nearly as can be. */
  private static final class Encounter {
    static final int TIMES = 200_000;

    /** So that it ends soon also where the two have one core, and hardly ever meet. */
    final long end = System.nanoTime() + 3_000_000_000L;

    final LaunchQueue queue = new LaunchQueue();
    volatile boolean asleep;
    volatile int adders;
    volatile int sleepers;
    volatile boolean over;
    boolean sawSleep;
    boolean sawQuiet;
    int missed;

    void add() {
      for (int time = 0; !over; time++) {
        asleep = false;
        queue.run(queue.added());
        over = time == TIMES || System.nanoTime() - end > 0;
        adders++;
        meet(true);
        queue.add((send, recv, ticket) -> {}, null, null, time);
        sawSleep = asleep;
        adders++;
        meet(true);
        missed += !sawSleep && sawQuiet ? 1 : 0;
      }
    }

    void sleep() {
      boolean last = false;
      while (!last) {
        sleepers++;
        meet(false);
        last = over;
        asleep = true;
        sawQuiet = queue.isQuiet();
        sleepers++;
        meet(false);
      }
    }

    /** Both count to the same number: the other's writes before are seen after. */
    private void meet(boolean adder) {
      int mine = adder ? adders : sleepers;
      for (int looks = 0; (adder ? sleepers : adders) < mine; looks++) {
        if (looks > 1000) {
          Thread.yield();
        }
      }
    }
  }

  private static void await(BooleanSupplier condition, String otherwise) {
    long end = System.nanoTime() + 60_000_000_000L;
    while (!condition.getAsBoolean()) {
      assertTrue(System.nanoTime() - end < 0, otherwise);
      Thread.onSpinWait();
    }
  }
}
