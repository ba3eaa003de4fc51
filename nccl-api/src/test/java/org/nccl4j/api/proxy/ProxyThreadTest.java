package org.nccl4j.api.proxy;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.spi.ProxyHandler;
import org.nccl4j.device.NcclException;

@Timeout(600)
class ProxyThreadTest {
  /** A handler runs before the memory that it touches is freed. */
  @Test
  void anInterruptedThreadWaitsForTheTurnThatRuns() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch goOn = new CountDownLatch(1);
    ProxyHandler slow =
        () -> {
          begun.countDown();
          try {
            assertTrue(goOn.await(300, TimeUnit.SECONDS));
          } catch (InterruptedException e) {
            throw new IllegalStateException(e);
          }
          return 0;
        };
    ProxyThread proxy = new ProxyThread("slow", List.of(slow));
    proxy.start();
    assertTrue(begun.await(300, TimeUnit.SECONDS));
    CompletableFuture<Boolean> stopped =
        CompletableFuture.supplyAsync(
            () -> {
              Thread.currentThread().interrupt();
              return proxy.stop() && Thread.interrupted();
            });
    assertThrows(TimeoutException.class, () -> stopped.get(100, TimeUnit.MILLISECONDS));
    goOn.countDown();
    assertTrue(stopped.get(300, TimeUnit.SECONDS), "it has ended, and the thread is interrupted");
  }

  /** The question for work that is left fails like the work itself. */
  @Test
  void aHandlerThatCannotSayWhetherItIsUnderWayEndsTheWork() throws Exception {
    ProxyHandler broken =
        new ProxyHandler() {
          @Override
          public int doWork() {
            return 0;
          }

          @Override
          public boolean isUnderWay() {
            throw new IllegalStateException("no idea");
          }
        };
    ProxyThread proxy = new ProxyThread("broken", List.of(broken));
    CompletableFuture<NcclException> told = new CompletableFuture<>();
    proxy.onFailure(told::complete);
    proxy.start();
    NcclException failure = told.get(300, TimeUnit.SECONDS);
    assertTrue(failure.getMessage().contains("no idea"), failure::getMessage);
    assertTrue(proxy.isIdle());
    assertTrue(proxy.stop());
  }

  /** After neglect, the caller frees the memory that turns write into. */
  @Test
  void neglectSaysWhetherATurnStillWrites() throws Exception {
    CountDownLatch begun = new CountDownLatch(1);
    CountDownLatch goOn = new CountDownLatch(1);
    ProxyThread proxy = new ProxyThread("slow", List.of(), Duration.ofMillis(50));
    proxy.attend(
        List.of(),
        () -> {
          begun.countDown();
          try {
            assertTrue(goOn.await(300, TimeUnit.SECONDS));
          } catch (InterruptedException e) {
            throw new IllegalStateException(e);
          }
          return 0;
        });
    CompletableFuture<Integer> turn = CompletableFuture.supplyAsync(proxy::doWork);
    assertTrue(begun.await(300, TimeUnit.SECONDS));
    assertFalse(proxy.neglect());
    goOn.countDown();
    turn.get(300, TimeUnit.SECONDS);
    assertTrue(proxy.neglect());
  }

  @Test
  void oneThatWasNotStartedIsStopped() {
    assertTrue(new ProxyThread("none", List.of(() -> 0)).stop());
  }
}
