package org.nccl4j.device.host.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.kernel.protocol.ConnectionTable;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.Progress;
import org.nccl4j.device.kernel.Tree;

/** Connections' memory is freed when all turns have ended. */
@Timeout(600)
class KernelSerializerTest {
  private final CountDownLatch begun = new CountDownLatch(1);
  private final CountDownLatch goOn = new CountDownLatch(1);

  private static SpinWait waiter(Progress progress) {
    return new SpinWait("turns", 0, Duration.ofSeconds(30), false, progress);
  }

  private static ConnectionTable ends() {
    List<Connection> none = Collections.nCopies(1, null);
    return new ConnectionTable(
        new KernelCommunicatorSpec(
            "turns",
            0,
            1,
            new ConnectionLayout(4096, 4096, 4096),
            none,
            none,
            List.of(new int[] {0}),
            List.of(new Tree(-1, List.of()), new Tree(-1, List.of())),
            1,
            Progress.NONE,
            Duration.ofSeconds(30)));
  }

  private void slowly() {
    begun.countDown();
    try {
      assertTrue(goOn.await(300, TimeUnit.SECONDS));
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  void aKernelThatFailsBeforeItsTurnDoesNotEndTheOneThatRuns() throws Exception {
    SpinWait waiter = waiter(Progress.NONE);
    ConnectionTable ends = ends();
    KernelSerializer turns = new KernelSerializer(waiter, Progress.NONE, ends);
    CompletableFuture<Void> first =
        CompletableFuture.runAsync(
            () -> turns.run((send, recv) -> slowly(), ends, null, null, 0, 0));
    try {
      assertTrue(begun.await(300, TimeUnit.SECONDS));
      waiter.fail(new InternalErrorException("something broke", "mend it", null));
      for (long ticket = 2; ticket > 0; ticket--) { // in any order
        long mine = ticket;
        assertThrows(NcclException.class, () -> turns.run((s, r) -> {}, ends, null, null, mine, 0));
      }
      assertFalse(turns.reached(1), "the first kernel still runs");
      assertEquals(0, turns.ended(ends));
    } finally {
      goOn.countDown();
    }
    first.get(300, TimeUnit.SECONDS);
    assertTrue(turns.reached(3));
    assertEquals(3, turns.ended(ends));
    assertFalse(turns.reached(4));
  }

  /** Memory that a turn uses is freed when the turn has ended. */
  @Test
  void theTurnEndsAfterTheProxyWasToldOfTheEnd() {
    AtomicReference<KernelSerializer> turns = new AtomicReference<>();
    AtomicReference<Boolean> ended = new AtomicReference<>();
    Progress progress =
        new Progress() {
          @Override
          public int doWork() {
            return 0;
          }

          @Override
          public void kernelEnded() {
            ended.set(turns.get().reached(1));
          }
        };
    ConnectionTable ends = ends();
    turns.set(new KernelSerializer(waiter(progress), progress, ends));
    turns.get().run((send, recv) -> {}, ends, null, null, 0, 0);
    assertEquals(false, ended.get());
    assertTrue(turns.get().reached(1));
  }
}
