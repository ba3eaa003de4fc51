package org.nccl4j.device.host.stream;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.host.HostDevice;

/** A stream's own thread runs its launches, until another thread is lent. */
@Timeout(600)
class LendingTest {
  private static final int MOST_TURNS = 100;

  private final LaunchQueue queue = new LaunchQueue();
  private int ran;

  private void add(Runnable what) {
    StreamOperation operation =
        (send, recv, ticket) -> {
          ran++;
          what.run();
        };
    assertTrue(queue.add(operation, null, null, 0));
  }

  @Test
  void whoGivesWayRunsAllWhileNobodyLends() {
    add(() -> {});
    add(() -> {});
    assertTrue(queue.runUntilLent(2));
    assertEquals(2, ran);
    assertEquals(2, queue.ended());
  }

  @Test
  void whoGivesWayEndsWithTheLaunchDuringWhichAThreadIsLent() {
    add(() -> queue.lends(true));
    add(() -> {});
    add(() -> {});
    assertFalse(queue.runUntilLent(3));
    assertEquals(1, ran);
    assertFalse(queue.runUntilLent(3), "the thread that is lent has not come yet");
    assertEquals(1, queue.ended());
    assertTrue(queue.run(2));
    queue.lends(false);
    assertEquals(2, queue.ended());
    assertTrue(queue.runUntilLent(3), "nobody is lent for the last");
    assertEquals(3, ran);
  }

  /** A lender whose last launch is running when the other thread comes has run all launches. */
  @Test
  void aLenderDoesNotUndoWhatHasEnded() {
    add(() -> queue.lends(true));
    assertTrue(queue.runUntilLent(1));
    queue.lends(false);
  }

  /** Else large groups that nobody synchronizes would fill the memory. */
  @Test
  void aStreamThatGrowsHoldsLittleOfWhatWasLaunchedBefore() {
    AtomicBoolean mayRun = new AtomicBoolean();
    int launches = 5 * LaunchQueue.CAPACITY;
    try (HostStream stream = new HostStream(HostDevice.instance(), new Dispatcher())) {
      stream.grow(true);
      stream.launchHostFunction(
          () -> {
            while (!mayRun.get()) {
              Thread.onSpinWait();
            }
          });
      for (int launch = 1; launch < launches; launch++) {
        stream.launchHostFunction(() -> ran++);
      }
      stream.grow(false);
      assertEquals(launches, stream.launched());
      mayRun.set(true);
      stream.grow(true);
      long held = stream.launched() - stream.ended();
      assertTrue(held <= LaunchQueue.CAPACITY / 2, held + " launches are held");
      stream.grow(false);
      stream.synchronize();
      assertEquals(launches - 1, ran);
    }
  }

  @Test
  void aThreadThatSynchronizesTakesOver() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch release = new CountDownLatch(1);
    Thread[] runners = new Thread[3];
    try (HostStream stream = new HostStream(HostDevice.instance(), new Dispatcher())) {
      stream.launchHostFunction(
          () -> {
            runners[0] = Thread.currentThread();
            begun.countDown();
            awaitUninterrupted(release);
          });
      stream.launchHostFunction(() -> runners[1] = Thread.currentThread());
      stream.startNow();
      begun.await();
      Thread lender = new Thread(stream::synchronize, "lender");
      lender.start();
      while (Arrays.stream(lender.getStackTrace())
          .noneMatch(frame -> frame.getMethodName().equals("idle"))) {
        Thread.onSpinWait();
      }
      release.countDown();
      lender.join();
      assertEquals("nccl4j-stream", runners[0].getName());
      assertSame(lender, runners[1]);
      // The stream's own thread is there for what nobody lends a thread.
      stream.launchHostFunction(() -> runners[2] = Thread.currentThread());
      stream.startNow();
      while (!stream.isEmpty()) {
        Thread.onSpinWait();
      }
      assertEquals("nccl4j-stream", runners[2].getName());
    }
  }

  /** Else a launch would have to make it, and allocate. */
  @Test
  void aStreamWhoseLaunchesWaitedHasItsThreadBeforeTheNextLaunch() {
    Set<Thread> before = streamThreads();
    try (HostStream stream = new HostStream(HostDevice.instance(), new Dispatcher())) {
      stream.startAbandoned();
      Set<Thread> made = streamThreads();
      made.removeAll(before);
      assertEquals(1, made.size());
    }
  }

  /** Else each look would wake a thread beside the one that synchronizes. */
  @Test
  void aLookAtAnEventStartsNothing() {
    List<Boolean> found = new ArrayList<>();
    for (int turn = 0; turn < MOST_TURNS && !found.equals(List.of(true, true, true)); turn++) {
      found.clear(); // the stream's thread may have been made before this thread was lent
      HostEvent event = new HostEvent();
      try (HostStream stream = new HostStream(HostDevice.instance(), new Dispatcher())) {
        stream.launchHostFunction(
            () -> {
              Set<Thread> before = streamThreads();
              found.add(!event.isKnownComplete());
              found.add(before.containsAll(streamThreads()));
              event.isComplete();
              found.add(!before.containsAll(streamThreads()));
            });
        stream.record(event);
        stream.synchronize();
      }
      assertTrue(event.isKnownComplete());
    }
    assertEquals(List.of(true, true, true), found);
  }

  private static Set<Thread> streamThreads() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().equals("nccl4j-stream"))
        .collect(Collectors.toSet());
  }

  private static void awaitUninterrupted(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
