package org.nccl4j.api.group;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** Work that is handed to a thread, one piece at a time. */
@Timeout(600)
class LaunchThreadTest {
  private final AtomicReference<Thread> runs = new AtomicReference<>();
  private final LaunchThread thread =
      new LaunchThread("launch", () -> runs.set(Thread.currentThread()));

  @AfterEach
  void end() {
    thread.close();
  }

  @Test
  void everyPieceIsDoneOnItAwakeOrAsleep() throws Exception {
    AtomicInteger done = new AtomicInteger();
    for (int piece = 0; piece < 2000; piece++) {
      if (piece % 500 == 499) {
        while (runs.get() == null || runs.get().getState() != Thread.State.WAITING) {
          Thread.onSpinWait(); // until it sleeps
        }
      }
      assertTrue(
          thread.give(
              () -> {
                assertSame(runs.get(), Thread.currentThread());
                done.incrementAndGet();
              }));
      assertNull(thread.await());
      assertEquals(piece + 1, done.get());
    }
  }

  @Test
  void oneThatIsBusyEndsLater() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch goOn = new CountDownLatch(1);
    assertTrue(
        thread.give(
            () -> {
              begun.countDown();
              try {
                goOn.await();
              } catch (InterruptedException e) {
                throw new IllegalStateException(e);
              }
            }));
    assertTrue(begun.await(300, TimeUnit.SECONDS));
    thread.closeLater();
    assertTrue(runs.get().isAlive());
    goOn.countDown();
    assertNull(thread.await());
    runs.get().join();
  }

  @Test
  void oneThatSleepsEndsToo() throws Exception {
    while (runs.get() == null || runs.get().getState() != Thread.State.WAITING) {
      Thread.onSpinWait();
    }
    thread.closeLater();
    runs.get().join();
  }

  @Test
  void whatIsThrownIsHandedBackAndItGoesOn() {
    RuntimeException error = new IllegalStateException("no");
    assertTrue(
        thread.give(
            () -> {
              throw error;
            }));
    assertSame(error, thread.await());
    assertTrue(thread.give(() -> {}));
    assertNull(thread.await());
  }

  @Test
  void whileItIsBusyNothingIsTaken() throws Exception {
    CountDownLatch go = new CountDownLatch(1);
    assertTrue(
        thread.give(
            () -> {
              try {
                go.await(300, TimeUnit.SECONDS);
              } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
              }
            }));
    assertFalse(thread.give(() -> {}));
    go.countDown();
    assertNull(thread.await());
  }

  @Test
  void whenItIsClosedItEndsAndTakesNothing() throws Exception {
    assertTrue(thread.give(() -> {}));
    assertNull(thread.await());
    thread.close();
    runs.get().join(300_000);
    assertFalse(runs.get().isAlive());
    assertFalse(thread.give(() -> {}));
    thread.close();
  }
}
