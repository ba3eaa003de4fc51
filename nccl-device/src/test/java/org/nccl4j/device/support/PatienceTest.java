package org.nccl4j.device.support;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.stream.Backoff;

@Timeout(600)
class PatienceTest {
  @Test
  void noLengthIsTooLong() {
    assertEquals(1_500_000_000L, Patience.nanos(Duration.ofMillis(1500)));
    assertEquals(0, Patience.nanos(Duration.ofSeconds(-1)));
    for (Duration longest : new Duration[] {ChronoUnit.FOREVER.getDuration(), years(200)}) {
      assertTrue(Patience.end(longest) - System.nanoTime() > years(100).toNanos());
      assertTrue(Patience.millis(longest) > years(100).toMillis());
    }
  }

  @Test
  void lengthsAreWrittenAsPeopleDo() {
    assertEquals("250 ms", Patience.text(Duration.ofMillis(250)));
    assertEquals("5 s", Patience.text(Duration.ofSeconds(5)));
    assertEquals("1.5 s", Patience.text(Duration.ofMillis(1500)));
    assertEquals("60 s", Patience.text(Duration.ofMillis(59_955)));
    assertEquals("10 min", Patience.text(Duration.ofMinutes(10)));
    assertEquals("90 s", Patience.text(Duration.ofSeconds(90)));
    assertEquals("601 s", Patience.text(Duration.ofSeconds(601)));
  }

  @Test
  void aThreadOfTheLibraryForgetsInterruptions() {
    Thread.currentThread().interrupt();
    Patience.parkOwn(this, 1);
    assertFalse(Thread.currentThread().isInterrupted());
  }

  private static Duration years(int years) {
    return Duration.ofDays(365L * years);
  }

  @Test
  void aStreamMayBeWaitedForForEver() {
    try (DeviceStream stream = HostDevice.instance().createStream()) {
      stream.launchHostFunction(() -> {});
      stream.synchronize(ChronoUnit.FOREVER.getDuration());
    }
  }

  @Test
  void anInterruptionDoesNotEndAJoin() throws Exception {
    CountDownLatch goOn = new CountDownLatch(1);
    Thread awaited = new Thread(() -> await(goOn));
    awaited.start();
    CompletableFuture<Boolean> joined = new CompletableFuture<>();
    Thread joining =
        new Thread(
            () -> {
              Thread.currentThread().interrupt();
              boolean ended = Patience.join(awaited, Duration.ofSeconds(50));
              joined.complete(ended && Thread.currentThread().isInterrupted());
            });
    joining.start();
    while (joining.getState() != Thread.State.TIMED_WAITING && joining.isAlive()) {
      Thread.onSpinWait();
    }
    assertFalse(joined.isDone());
    goOn.countDown();
    assertTrue(joined.get(300, TimeUnit.SECONDS), "it has ended, and the thread is interrupted");
    assertFalse(Patience.join(Thread.currentThread(), Duration.ofMillis(1)));
  }

  private static void await(CountDownLatch latch) {
    try {
      assertTrue(latch.await(300, TimeUnit.SECONDS));
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Else it burns a core. */
  @Test
  void anInterruptedThreadSleepsInAWait() {
    Backoff backoff = new Backoff(0);
    Thread.currentThread().interrupt();
    long begin = System.nanoTime();
    for (int look = 0; look < 2_400; look++) { // 2,000 of them yields
      backoff.idle();
    }
    assertTrue(System.nanoTime() - begin > TimeUnit.MILLISECONDS.toNanos(40), "400 sleeps");
    assertTrue(Thread.interrupted(), "and it stays interrupted");
  }
}
