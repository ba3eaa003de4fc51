package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
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
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;

/** Closing a communicator while something of it runs, waits or is being launched. */
@Timeout(120)
class ClosingTest {
  private static final DataType F32 = DataType.FLOAT32;
  private static final Duration LONG = Duration.ofSeconds(50);

  private final CountDownLatch begun = new CountDownLatch(2);
  private final CountDownLatch goOn = new CountDownLatch(1);

  private ReductionOperator slow() {
    return ReductionOperator.of(
        "slow",
        (a, b, target, count, type) -> {
          begun.countDown();
          try {
            assertTrue(goOn.await(50, TimeUnit.SECONDS));
          } catch (InterruptedException e) {
            throw new IllegalStateException(e);
          }
        });
  }

  private static void allReduce(Communicator comm, DeviceStream stream) {
    DeviceMemory data = Ranks.floats(1, i -> 1);
    comm.allReduce(data, data, 1, F32, RedOp.SUM, stream);
  }

  /** The connections' memory is freed by it. */
  @Test
  void closingWaitsForAKernelThatRunsThoughALaterOneHasFailed() throws Exception {
    try (Ranks ranks = new Ranks(2, CommunicatorConfig.defaults().with("NCCL_ALGO", "OneShot"));
        DeviceStream other = ranks.streams.get(0).device().createStream()) {
      CompletableFuture<Void> running =
          CompletableFuture.runAsync(
              () ->
                  assertThrows(
                      NcclException.class,
                      () -> ranks.run((comm, stream) -> reduceSlowly(comm, stream))));
      try {
        assertTrue(begun.await(50, TimeUnit.SECONDS));
        Communicator first = ranks.communicators.get(0);
        allReduce(first, other);
        first.abort();
        NcclException e = assertThrows(NcclException.class, other::synchronize);
        assertEquals(ErrorId.ABORTED, e.id());
        CompletableFuture<Void> closing = CompletableFuture.runAsync(() -> first.close(LONG));
        assertThrows(TimeoutException.class, () -> closing.get(200, TimeUnit.MILLISECONDS));
        goOn.countDown();
        closing.get(50, TimeUnit.SECONDS);
      } finally {
        goOn.countDown();
      }
      running.get(50, TimeUnit.SECONDS);
    }
  }

  private void reduceSlowly(Communicator comm, DeviceStream stream) {
    DeviceMemory data = Ranks.floats(1, i -> 1);
    comm.allReduce(data, data, 1, F32, slow(), stream);
    stream.synchronize();
    allReduce(comm, stream);
    stream.synchronize();
  }

  /** A thread that fills a stream is lent to it, and has the communicator's turn to launch. */
  @Test
  void closingEndsAThreadThatLaunchesIntoAFullStream() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      Communicator first = ranks.communicators.get(0);
      DeviceStream stream = ranks.streams.get(0);
      DeviceMemory data = Ranks.floats(1, i -> 1);
      CompletableFuture<NcclException> launching = new CompletableFuture<>();
      CountDownLatch nearlyFull = new CountDownLatch(1);
      Thread thread =
          new Thread(
              () ->
                  launching.complete(
                      assertThrows(
                          NcclException.class,
                          () -> {
                            for (int call = 0; call < 100_000; call++) {
                              first.allReduce(data, data, 1, F32, RedOp.SUM, stream);
                              if (call == 1_000) {
                                nearlyFull.countDown();
                              }
                            }
                          })));
      thread.start();
      assertTrue(nearlyFull.await(50, TimeUnit.SECONDS));
      while (!isLent(thread)) {
        Thread.onSpinWait();
      }
      CompletableFuture<Void> closing =
          CompletableFuture.runAsync(() -> first.close(Duration.ZERO));
      closing.get(30, TimeUnit.SECONDS); // the operations' deadline is later
      launching.get(30, TimeUnit.SECONDS);
      assertThrows(NcclException.class, stream::synchronize);
    }
  }

  private static boolean isLent(Thread thread) {
    return List.of(thread.getStackTrace()).stream()
        .anyMatch(frame -> frame.getMethodName().equals("addWhenThereIsRoom"));
  }

  @Test
  void closingMayTakeForEver() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      Communicator first = ranks.communicators.get(0);
      allReduce(first, ranks.streams.get(0));
      ranks.streams.get(0).startNow();
      CompletableFuture<Void> closing =
          CompletableFuture.runAsync(() -> first.close(Duration.ofSeconds(Long.MAX_VALUE)));
      assertThrows(TimeoutException.class, () -> closing.get(20, TimeUnit.MILLISECONDS));
      allReduce(ranks.communicators.get(1), ranks.streams.get(1));
      ranks.streams.get(1).synchronize();
      closing.get(50, TimeUnit.SECONDS);
    }
  }

  /** An interrupted thread must not free what proxies and helpers of sockets use. */
  @Test
  void anInterruptedThreadWaitsForTheThreadsThatItEnds() throws Exception {
    CommunicatorConfig net =
        CommunicatorConfig.defaults()
            .withName("interrupted")
            .withTransports(List.of("NET"))
            .with("NCCL_SOCKET_NTHREADS", "2")
            .with("NCCL_NSOCKS_PERTHREAD", "1");
    Ranks ranks = new Ranks(2, net);
    ranks.run(
        (comm, stream) -> {
          allReduce(comm, stream);
          stream.synchronize();
          Thread.currentThread().interrupt();
          comm.close();
          assertTrue(Thread.interrupted());
        });
    assertFalse(
        Thread.getAllStackTraces().keySet().stream()
            .anyMatch(t -> t.isAlive() && t.getName().equals("nccl4j-proxy-interrupted")));
    ranks.close();
  }

  @Test
  void whatCannotBeMadeLeavesNoThread() {
    CommunicatorConfig wrong =
        CommunicatorConfig.defaults()
            .withName("nonsense")
            .withTransports(List.of("NET"))
            .with("NCCL_ALGO", "nonsense");
    NcclException e = assertThrows(NcclException.class, () -> new Ranks(2, wrong));
    assertTrue(e.getMessage().contains("nonsense"), e.getMessage());
    assertFalse(
        Thread.getAllStackTraces().keySet().stream()
            .anyMatch(t -> t.getName().equals("nccl4j-proxy-nonsense")));
  }
}
