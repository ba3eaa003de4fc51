package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.DeviceCommunicator;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;

/** Closing a communicator while something of it runs, waits or is being launched. */
@Timeout(600)
class ClosingTest {
  private static final DataType F32 = DataType.FLOAT32;
  private static final Duration LONG = Duration.ofSeconds(50);

  /** The common pool may have one thread. */
  private static final Executor ON_ITS_THREAD = task -> new Thread(task).start();

  private final CountDownLatch begun = new CountDownLatch(2);
  private final CountDownLatch goOn = new CountDownLatch(1);

  private ReductionOperator slow() {
    return ReductionOperator.of(
        "slow",
        (a, b, target, count, type) -> {
          begun.countDown();
          try {
            assertTrue(goOn.await(300, TimeUnit.SECONDS));
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
                      () -> ranks.run((comm, stream) -> reduceSlowly(comm, stream))),
              ON_ITS_THREAD);
      try {
        assertTrue(begun.await(300, TimeUnit.SECONDS));
        Communicator first = ranks.communicators.get(0);
        allReduce(first, other);
        first.abort();
        NcclException e = assertThrows(NcclException.class, other::synchronize);
        assertEquals(ErrorId.ABORTED, e.id());
        CompletableFuture<Void> closing =
            CompletableFuture.runAsync(() -> first.close(LONG), ON_ITS_THREAD);
        assertThrows(TimeoutException.class, () -> closing.get(200, TimeUnit.MILLISECONDS));
        goOn.countDown();
        closing.get(300, TimeUnit.SECONDS);
      } finally {
        goOn.countDown();
      }
      running.get(300, TimeUnit.SECONDS);
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
      assertTrue(nearlyFull.await(300, TimeUnit.SECONDS));
      while (!isLent(thread)) {
        Thread.onSpinWait();
      }
      CompletableFuture<Void> closing =
          CompletableFuture.runAsync(() -> first.close(Duration.ZERO));
      closing.get(300, TimeUnit.SECONDS); // the operations' deadline is later
      launching.get(300, TimeUnit.SECONDS);
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
      closing.get(300, TimeUnit.SECONDS);
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

  private static void callCollectively(String call, Communicator comm, DeviceMemory memory) {
    switch (call) {
      case "split" -> comm.split(0, comm.rank());
      case "window" -> comm.registerWindow(memory);
      default -> comm.createDeviceCommunicator(DeviceCommunicator.Requirements.defaults());
    }
  }

  /** The other rank never makes the call. */
  @ParameterizedTest
  @CsvSource({"window, true", "window, false", "device, true", "split, true", "split, false"})
  void closingEndsACollectiveCallOfAnotherThread(String call, boolean aborts) throws Exception {
    Duration tooLong = Duration.ofHours(1);
    try (Ranks ranks = new Ranks(2, CommunicatorConfig.defaults().withInitTimeout(tooLong));
        DeviceMemory memory = Devices.host().memAlloc(64)) {
      Communicator first = ranks.communicators.get(0);
      CompletableFuture<NcclException> ended = new CompletableFuture<>();
      Thread caller =
          new Thread(
              () -> {
                try {
                  callCollectively(call, first, memory);
                } catch (NcclException e) {
                  ended.complete(e);
                }
              });
      caller.start();
      while (caller.isAlive() && !Ranks.isInExchange(caller)) {
        Thread.onSpinWait();
      }
      if (aborts) {
        first.abort();
      }
      first.close(Duration.ZERO);
      ErrorId expected = aborts ? ErrorId.ABORTED : ErrorId.STILL_RUNNING;
      assertEquals(expected, ended.get(300, TimeUnit.SECONDS).id());
    }
  }

  private static void sum(Ranks ranks) throws Exception {
    ranks.run(
        (comm, stream) -> {
          allReduce(comm, stream);
          stream.synchronize();
        });
  }

  /** Error handlers may abort what they have closed. */
  @Test
  void whatIsClosedDoesNotFailThoseWhoseConnectionsItShared() throws Exception {
    List<Communicator> splits = Collections.synchronizedList(new ArrayList<>());
    Ranks parents = new Ranks(2);
    parents.run((comm, stream) -> splits.add(comm.split(0, comm.rank()).orElseThrow()));
    splits.forEach(Communicator::close);
    splits.get(0).abort();
    sum(parents);
    splits.clear();
    parents.run((comm, stream) -> splits.add(comm.split(0, comm.rank()).orElseThrow()));
    parents.close();
    parents.communicators.get(1).revoke();
    try (Ranks children = new Ranks(splits)) {
      sum(children);
    }
  }
}
