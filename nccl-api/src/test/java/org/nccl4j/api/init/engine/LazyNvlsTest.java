package org.nccl4j.api.init.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.function.Function;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.bootstrap.LocalBootstrap;
import org.nccl4j.api.multicast.MulticastProvider.Exchange;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.device.symmetric.MulticastMemory;

/** The making of NVLS by ranks of which only one asks for it. */
@Timeout(600)
class LazyNvlsTest {
  private static final int N = 3;
  private static final Duration LONG = Duration.ofSeconds(40);
  private static final Nvls OUTLINE =
      new Nvls(
          new NvlsLayout(N, 1, 512),
          List.of(0, 1, 2),
          0,
          null,
          new MulticastMemory(/* emulated= */ true, List.of()));

  private final List<Bootstrap> bootstraps = LocalBootstrap.create(N, LONG);
  private final List<String> refusals = Collections.synchronizedList(new ArrayList<>());
  private final List<NcclException> failures = Collections.synchronizedList(new ArrayList<>());

  private List<LazyNvls> makings(
      Duration patience, IntFunction<Function<Exchange, Optional<Nvls>>> makers) {
    List<byte[]> points = bootstraps.stream().map(Bootstrap::meetingPoint).toList();
    List<LazyNvls> makings = new ArrayList<>();
    for (Bootstrap bootstrap : bootstraps) {
      LazyNvls making =
          new LazyNvls(
              "test",
              bootstrap,
              points,
              OUTLINE,
              makers.apply(bootstrap.rank()),
              refusals::add,
              patience);
      bootstrap.onCall(making::called);
      makings.add(making);
    }
    makings.forEach(making -> making.start(failures::add));
    return makings;
  }

  /** Parts of several answers' length come to every rank whole. */
  @Test
  void oneRankHasItMadeOnAll() {
    List<List<byte[]>> seen = Collections.synchronizedList(new ArrayList<>());
    List<LazyNvls> makings =
        makings(
            LONG,
            rank ->
                exchange -> {
                  seen.add(exchange.allGather(new byte[1500 + rank]));
                  seen.add(exchange.allGather(new byte[rank]));
                  return Optional.of(OUTLINE);
                });
    assertSame(OUTLINE, makings.get(1).make().orElseThrow());
    for (LazyNvls making : makings) {
      assertSame(OUTLINE, making.make().orElseThrow());
      assertTrue(making.stop());
    }
    assertEquals(2 * N, seen.size());
    for (List<byte[]> parts : seen) {
      int first = parts.get(0).length;
      assertTrue(first == 1500 || first == 0);
      assertEquals(first + 2, parts.get(2).length);
    }
    assertEquals(List.of(), failures);
  }

  /** A rank whose thread is held up has no NVLS either, and its operation goes on meanwhile. */
  @Test
  void aRankThatIsHeldUpTurnsItOffOnAll() throws Exception {
    for (int held = 0; held < N; held++) {
      refusals.clear();
      CountDownLatch latch = new CountDownLatch(1);
      int who = held;
      List<LazyNvls> makings =
          makings(
              Duration.ofMillis(50),
              rank ->
                  exchange -> {
                    exchange.allGather(new byte[0]);
                    if (rank == who) {
                      await(latch);
                    }
                    exchange.allGather(new byte[0]);
                    return Optional.of(OUTLINE);
                  });
      for (LazyNvls making : makings) {
        assertEquals(Optional.empty(), making.make());
        assertNull(making.place());
      }
      latch.countDown();
      for (LazyNvls making : makings) {
        assertTrue(making.stop());
        assertEquals(Optional.empty(), making.make());
      }
      assertEquals(N, refusals.size(), refusals::toString);
      assertEquals(1, refusals.stream().distinct().count());
      assertTrue(refusals.get(0).contains("did not take a step"), refusals.get(0));
      assertEquals(List.of(), failures);
    }
  }

  private static void await(CountDownLatch latch) {
    try {
      assertTrue(latch.await(LONG.toSeconds(), TimeUnit.SECONDS));
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  void anErrorOfARankIsTheFailureOfItsCommunicator() {
    List<LazyNvls> makings =
        makings(
            LONG,
            rank ->
                exchange -> {
                  if (rank == 1) {
                    throw new SystemErrorException(
                        ErrorId.UNREACHABLE, "the bus is broken", "mend it", null);
                  }
                  exchange.allGather(new byte[0]);
                  return Optional.of(OUTLINE);
                });
    NcclException error = assertThrows(NcclException.class, () -> makings.get(1).make());
    assertTrue(error.getMessage().contains("the bus is broken"), error.getMessage());
    assertTrue(makings.get(1).stop());
    assertEquals(1, failures.size());
    makings.forEach(making -> assertTrue(making.stop()));
  }
}
