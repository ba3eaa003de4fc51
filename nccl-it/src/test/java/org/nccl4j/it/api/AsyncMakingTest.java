package org.nccl4j.it.api;

import static java.nio.ByteOrder.nativeOrder;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.Communicator.ShrinkMode;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.TimeoutException;

/** Communicators made without waiting: all by one thread, which could not wait for any. */
@Timeout(600)
class AsyncMakingTest {
  private static final CommunicatorConfig DEFAULTS = CommunicatorConfig.defaults();

  /** Futures by rank, all begun by this thread. */
  private static <T> List<CompletableFuture<T>> begin(
      List<Communicator> ranks, Function<Communicator, CompletableFuture<T>> f) {
    return ranks.stream().map(f).toList();
  }

  private static <T> List<T> all(List<CompletableFuture<T>> futures) throws Exception {
    List<T> results = new ArrayList<>();
    for (CompletableFuture<T> future : futures) {
      results.add(future.get(300, TimeUnit.SECONDS));
    }
    return results;
  }

  private static NcclException failure(CompletableFuture<?> future) {
    ExecutionException e =
        assertThrows(ExecutionException.class, () -> future.get(300, TimeUnit.SECONDS));
    return (NcclException) e.getCause();
  }

  /** Each rank gives 1 + its rank; closes the communicators. */
  private static void assertSums(List<Communicator> ranks) {
    int n = ranks.size();
    List<DeviceMemory> data = new ArrayList<>();
    List<DeviceStream> streams = new ArrayList<>();
    for (Communicator rank : ranks) {
      data.add(Ranks.floats(100, i -> 1 + rank.rank()));
      streams.add(Devices.host().createStream());
    }
    for (int r = 0; r < n; r++) {
      DeviceMemory own = data.get(r);
      ranks.get(r).allReduce(own, own, 100, DataType.FLOAT32, RedOp.SUM, streams.get(r));
    }
    streams.forEach(DeviceStream::isIdle);
    for (int r = 0; r < n; r++) {
      streams.get(r).synchronize();
      assertEquals(n * (n + 1) / 2f, Ranks.floats(data.get(r))[99]);
      streams.get(r).close();
      data.get(r).close();
    }
    ranks.forEach(Communicator::close);
  }

  @Test
  void ranksAreMadeByOneOrSeveralIdsAndAllAtOnce() throws Exception {
    List<UniqueId> ids = List.of(UniqueId.create(), UniqueId.create());
    List<CompletableFuture<Communicator>> joining = new ArrayList<>();
    for (int rank = 0; rank < 4; rank++) {
      joining.add(Communicator.initRankAsync(4, ids, rank, Devices.host(), DEFAULTS));
    }
    assertSums(all(joining));
    assertSums(
        Communicator.initAllAsync(Collections.nCopies(3, Devices.host()), DEFAULTS)
            .get(300, TimeUnit.SECONDS));
  }

  @Test
  void oneThreadShrinksAndGrows() throws Exception {
    try (Ranks ranks = new Ranks(3)) {
      List<Communicator> staying = ranks.communicators.subList(0, 2);
      assertSums(all(begin(staying, c -> c.shrinkAsync(Set.of(2), ShrinkMode.WAIT, DEFAULTS))));
      UniqueId id = UniqueId.create();
      List<CompletableFuture<Communicator>> growing =
          new ArrayList<>(
              begin(ranks.communicators, c -> c.growAsync(4, c.rank() == 1 ? id : null, DEFAULTS)));
      growing.add(Communicator.initRankAsync(4, id, 3, Devices.host(), DEFAULTS));
      assertSums(all(growing));
      ranks.communicators.get(1).abort();
      assertSums(all(begin(staying, c -> c.shrinkAsync(Set.of(2), ShrinkMode.ABORT, DEFAULTS))));
    }
  }

  @Test
  void whatIsMadeOfOneCommunicatorFollowsTheOrderOfTheCalls() throws Exception {
    int rounds = 20;
    try (Ranks ranks = new Ranks(2)) {
      List<List<CompletableFuture<Optional<Communicator>>>> made = new ArrayList<>();
      for (int round = 0; round < rounds; round++) {
        CommunicatorConfig own = DEFAULTS.withName("round " + round);
        made.add(begin(ranks.communicators, c -> c.splitAsync(0, 0, own)));
      }
      List<CompletableFuture<Communicator>> last =
          begin(ranks.communicators, c -> c.shrinkAsync(Set.of(), ShrinkMode.WAIT, DEFAULTS));
      for (List<CompletableFuture<Optional<Communicator>>> round : made) {
        assertSums(all(round).stream().map(Optional::orElseThrow).toList());
      }
      assertSums(all(last));
    }
  }

  /** A rank's threads would otherwise make their exchanges at the same time. */
  @Test
  void anOperationOnRegisteredMemoryFollowsTheSplitBeforeIt() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      List<CompletableFuture<Optional<Communicator>>> splits = new ArrayList<>();
      List<FutureTask<Float>> sums = new ArrayList<>();
      for (Communicator rank : ranks.communicators) {
        DeviceMemory data = Devices.host().memAlloc(4096);
        rank.register(data);
        splits.add(rank.splitAsync(0, 0, DEFAULTS));
        FutureTask<Float> sum =
            new FutureTask<>(
                () -> {
                  DeviceStream stream = ranks.streams.get(rank.rank());
                  data.write(0, ByteBuffer.allocateDirect(4).order(nativeOrder()).putFloat(0, 2));
                  rank.allReduce(data, data, 1, DataType.FLOAT32, RedOp.SUM, stream);
                  stream.synchronize();
                  return Ranks.floats(data)[0];
                });
        sums.add(sum);
        Thread thread = new Thread(sum, "sum-" + rank.rank());
        thread.start();
        while (rank.rank() == 0 && thread.isAlive() && !isWaiting("sum-0")) {
          Thread.onSpinWait();
        }
      }
      for (FutureTask<Float> sum : sums) {
        assertEquals(4, sum.get(300, TimeUnit.SECONDS));
      }
      assertSums(all(splits).stream().map(Optional::orElseThrow).toList());
    }
  }

  /** The next one does not begin while the one before the cancelled one still runs. */
  @Test
  void aCallThatIsCancelledBeforeItsTurnIsNotMade() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      Communicator one = ranks.communicators.get(0);
      List<CompletableFuture<Optional<Communicator>>> firsts = new ArrayList<>();
      List<CompletableFuture<Optional<Communicator>>> seconds = new ArrayList<>();
      firsts.add(one.splitAsync(0, 0, DEFAULTS));
      one.splitAsync(0, 0, DEFAULTS).cancel(true);
      seconds.add(one.splitAsync(0, 0, DEFAULTS));
      while (waiting("nccl4j-split-0") < 2) {
        Thread.onSpinWait();
      }
      Communicator other = ranks.communicators.get(1);
      firsts.add(other.splitAsync(0, 0, DEFAULTS));
      seconds.add(other.splitAsync(0, 0, DEFAULTS));
      assertSums(all(firsts).stream().map(Optional::orElseThrow).toList());
      assertSums(all(seconds).stream().map(Optional::orElseThrow).toList());
    }
  }

  @Test
  void errorsAreThoseOfTheCallsThatWait() throws Throwable {
    // The deadline is that of the ranks' own making too, which loads no classes after this.
    new Ranks(2).close();
    LongerDeadline.retry(Duration.ofSeconds(2), AsyncMakingTest::assertErrors);
    assertTrue(
        failure(Communicator.initAllAsync(List.of(), DEFAULTS))
            instanceof InvalidArgumentException);
  }

  private static void assertErrors(Duration deadline) throws Exception {
    CommunicatorConfig hasty = DEFAULTS.withInitTimeout(deadline);
    try (Ranks ranks = new Ranks(2, hasty)) {
      Communicator one = ranks.communicators.get(0);
      UniqueId id = UniqueId.create();
      assertEquals(ErrorId.RANK, failure(one.growAsync(2, id, DEFAULTS)).id());
      assertEquals(
          ErrorId.RANK, failure(one.shrinkAsync(Set.of(0), ShrinkMode.WAIT, DEFAULTS)).id());
      assertTrue(
          failure(one.shrinkAsync(null, ShrinkMode.WAIT, DEFAULTS))
              instanceof InvalidArgumentException);
      assertEquals(
          ErrorId.RANK,
          failure(Communicator.initRankAsync(2, List.of(id), 2, Devices.host(), DEFAULTS)).id());
      NcclException late = failure(one.shrinkAsync(Set.of(), ShrinkMode.WAIT, DEFAULTS));
      assertTrue(late instanceof TimeoutException, late.toString());
      assertTrue(
          late.getMessage().contains("ranks [1] did not make the same call"), late.getMessage());
    }
  }

  @Test
  void aCancelledAttemptEndsAndTheOtherRanksHearOfIt() throws Exception {
    try (Ranks ranks = new Ranks(2)) {
      Communicator one = ranks.communicators.get(0);
      CompletableFuture<Optional<Communicator>> split = one.splitAsync(0, 0, DEFAULTS);
      CompletableFuture<Communicator> next = one.shrinkAsync(Set.of(), ShrinkMode.WAIT, DEFAULTS);
      while (!isWaiting("nccl4j-split-0")) {
        Thread.onSpinWait();
      }
      split.cancel(true);
      // What it left half done must not be taken for a part of the next exchange.
      assertEquals(ErrorId.INTERRUPTED, failure(next).id());
      NcclException other = failure(ranks.communicators.get(1).splitAsync(0, 0, DEFAULTS));
      assertEquals(ErrorId.INTERRUPTED, other.id());
      assertTrue(other.problem().startsWith("rank 0's thread was interrupted"), other.problem());
    }
    CompletableFuture<List<Communicator>> all =
        Communicator.initAllAsync(Collections.nCopies(4, Devices.host()), DEFAULTS);
    if (!all.cancel(true)) {
      assertSums(all.join());
    }
    while (IntStream.range(0, 4).anyMatch(r -> isAlive("nccl4j-init-" + r))
        || isAlive("nccl4j-init")) {
      Thread.onSpinWait();
    }
  }

  private static boolean isAlive(String thread) {
    return Thread.getAllStackTraces().keySet().stream().anyMatch(t -> t.getName().equals(thread));
  }

  private static boolean isWaiting(String thread) {
    return waiting(thread) > 0;
  }

  /** Threads of a name that wait. */
  private static long waiting(String thread) {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(t -> t.getName().equals(thread) && t.getState() == Thread.State.TIMED_WAITING)
        .count();
  }
}
