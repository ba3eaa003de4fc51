package org.nccl4j.api.init.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.bootstrap.LocalBootstrap;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.InternalErrorException;

@Timeout(600)
class NvlsTeardownTest {
  private static final Duration LONG = Duration.ofSeconds(50);

  private final List<Integer> freed = Collections.synchronizedList(new ArrayList<>());
  private List<Bootstrap> bootstraps;
  private List<NvlsTeardown> teardowns;

  /** Ranks, each with the process that it says it is of. */
  private void come(String... processes) {
    int n = processes.length;
    bootstraps = LocalBootstrap.create(n, LONG);
    List<PeerInfo> peers =
        IntStream.range(0, n)
            .mapToObj(r -> new PeerInfo(r, "host", "ns", processes[r], 0, Device.Kind.HOST, "host"))
            .toList();
    List<CompletableFuture<NvlsTeardown>> coming = new ArrayList<>();
    for (Bootstrap bootstrap : bootstraps) {
      CompletableFuture<NvlsTeardown> one = new CompletableFuture<>();
      Thread thread = new Thread(() -> one.complete(of(peers, bootstrap)));
      thread.start();
      coming.add(one);
    }
    teardowns = coming.stream().map(CompletableFuture::join).toList();
  }

  private static NvlsTeardown of(List<PeerInfo> peers, Bootstrap bootstrap) {
    return NvlsTeardown.of(peers, bootstrap.rank(), NvlsSetup.exchange(bootstrap));
  }

  private void leave(int rank, Duration patience, boolean failed) {
    teardowns.get(rank).leave(bootstraps.get(rank), patience, failed, 8, () -> freed.add(rank));
  }

  @Test
  void onOneThreadTheLastOfAProcessFreesForAll() {
    come("a", "a", "a");
    leave(2, LONG, false);
    leave(0, LONG, false);
    assertEquals(List.of(), freed);
    leave(1, LONG, false);
    assertEquals(List.of(2, 0, 1), freed);
  }

  @Test
  void otherProcessesAreWaitedFor() throws Exception {
    come("a", "b", "a");
    leave(0, LONG, false);
    Thread last = new Thread(() -> leave(2, LONG, false));
    last.start();
    while (last.getState() != Thread.State.TIMED_WAITING) {
      Thread.onSpinWait();
    }
    assertEquals(List.of(), freed);
    leave(1, LONG, false);
    last.join(TimeUnit.SECONDS.toMillis(50));
    assertEquals(List.of(0, 1, 2), freed.stream().sorted().toList());
  }

  @Test
  void memoryStaysUntilOtherProcessesCloseTheirs() throws Exception {
    come("a", "b");
    leave(0, Duration.ofMillis(20), false);
    assertEquals(List.of(), freed);
    leave(1, LONG, false);
    while (freed.size() < 2) {
      Thread.onSpinWait();
    }
  }

  @Test
  void anInterruptionDoesNotShortenTheWait() throws Exception {
    come("a", "b");
    CompletableFuture<Boolean> left = new CompletableFuture<>();
    Thread first =
        new Thread(
            () -> {
              Thread.currentThread().interrupt();
              leave(0, LONG, false);
              left.complete(freed.contains(0) && Thread.interrupted());
            });
    first.start();
    while (first.getState() != Thread.State.TIMED_WAITING && first.isAlive()) {
      Thread.onSpinWait();
    }
    leave(1, LONG, false);
    assertTrue(left.get(300, TimeUnit.SECONDS), "freed by the one that waited, still interrupted");
  }

  /** Where a kernel of one may use memory of another, all of them keep it. */
  @Test
  void whoFailedDoesNotWaitForOtherProcessesAndIsNotWaitedForByThem() {
    come("a", "b", "b");
    bootstraps.get(1).tellFailure(new InternalErrorException("something broke", "mend it"));
    leave(1, LONG, true);
    assertEquals(List.of(), freed);
    long begin = System.nanoTime();
    leave(0, LONG, false);
    assertEquals(List.of(0), freed);
    leave(2, LONG, true);
    assertEquals(List.of(0, 1, 2), freed);
    assertTrue(System.nanoTime() - begin < LONG.toNanos());
  }
}
