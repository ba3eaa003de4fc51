package org.nccl4j.device.support;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.support.CopyWays.Kind;
import org.nccl4j.device.support.CopyWays.Way;

class CopyWaysTest {
  private static final List<String> LINES =
      List.of("slots 2048:jvm 32768:streaming", "leaving 8192:library");

  /** A store in memory. */
  private static final class Kept implements CopyWays.Store {
    List<String> lines = List.of();
    int finds;
    int keeps;

    @Override
    public List<String> find() {
      finds++;
      return lines;
    }

    @Override
    public void keep(List<String> its) {
      keeps++;
      lines = its;
    }
  }

  private final Kept store = new Kept();

  private CopyWays process() {
    CopyWays ways = new CopyWays(Runnable::run);
    ways.keepIn(store);
    return ways;
  }

  @Test
  void aLaterProcessKnowsWhatOneHasKept() {
    CopyWays first = process();
    first.look(0);
    first.choose(Kind.SLOTS, 0, Way.JVM);
    first.choose(Kind.SLOTS, 2, Way.STREAMING);
    first.choose(Kind.LEAVING, 1, Way.LIBRARY);
    first.keep();
    assertEquals(LINES, store.lines);
    CopyWays second = process();
    assertEquals(Optional.empty(), second.way(Kind.SLOTS, 2));
    second.look(0);
    assertEquals(Optional.of(Way.STREAMING), second.way(Kind.SLOTS, 2));
    assertEquals(Optional.empty(), second.way(Kind.SLOTS, 1));
    assertEquals(LINES, second.lines());
    second.keep();
    assertEquals(1, store.keeps, "nothing has changed");
  }

  @Test
  void theStoreIsAskedOnceAndWrittenOnceAMinute() {
    CopyWays ways = process();
    ways.look(0);
    ways.choose(Kind.KEPT, 0, Way.LIBRARY);
    ways.look(CopyWays.KEEP_NANOS - 1);
    assertEquals(0, store.keeps);
    ways.look(CopyWays.KEEP_NANOS);
    assertEquals(1, store.keeps);
    ways.choose(Kind.KEPT, 0, Way.JVM);
    ways.look(CopyWays.KEEP_NANOS + 1);
    assertEquals(1, store.keeps);
    ways.look(2 * CopyWays.KEEP_NANOS);
    ways.look(3 * CopyWays.KEEP_NANOS);
    assertEquals(2, store.keeps);
    assertEquals(1, store.finds);
  }

  /** A process that closes its communicator before the first look keeps what others have found. */
  @Test
  void ownWaysCountAndOthersAreKeptBesideThem() {
    store.lines = LINES;
    CopyWays ways = process();
    ways.choose(Kind.SLOTS, 0, Way.LIBRARY);
    ways.keep();
    assertEquals(
        List.of("slots 2048:library 32768:streaming", "leaving 8192:library"), store.lines);
  }

  /** A store in the folder of a server that answers late. */
  private static final class Late implements CopyWays.Store {
    final CountDownLatch answer = new CountDownLatch(1);
    final CountDownLatch kept = new CountDownLatch(1);
    volatile List<String> lines = List.of();

    @Override
    public List<String> find() {
      await(answer);
      return LINES;
    }

    @Override
    public void keep(List<String> its) {
      await(answer);
      lines = its;
      kept.countDown();
    }
  }

  private static void await(CountDownLatch latch) {
    try {
      assertTrue(latch.await(5, TimeUnit.MINUTES));
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  /** Neither the thread that looks at all communicators nor a close waits for it. */
  @Test
  @Timeout(value = 4, unit = TimeUnit.MINUTES)
  void aStoreThatHangsStopsNobody() {
    Late late = new Late();
    CopyWays ways = new CopyWays();
    ways.keepIn(late);
    ways.look(0);
    ways.look(CopyWays.KEEP_NANOS);
    ways.choose(Kind.SLOTS, 0, Way.LIBRARY);
    ways.keep();
    ways.choose(Kind.KEPT, 0, Way.JVM);
    ways.keep();
    assertEquals(1, late.answer.getCount());
    late.answer.countDown();
    await(late.kept);
    assertEquals(
        List.of("slots 2048:library 32768:streaming", "kept 2048:jvm", "leaving 8192:library"),
        late.lines);
  }

  @Test
  void damagedLinesAreLeftOut() {
    List<String> lines = new ArrayList<>(LINES);
    lines.addAll(
        List.of("", " ", "kept", "kept 2048:", "kept 4096:jvm 2048:fast :jvm", "others 2048:jvm"));
    store.lines = lines;
    CopyWays ways = process();
    ways.look(0);
    assertEquals(LINES, ways.lines());
  }

  @Test
  void withoutAStoreNothingIsKept() {
    CopyWays ways = new CopyWays();
    ways.choose(Kind.KEPT, 0, Way.LIBRARY);
    ways.look(0);
    ways.keep();
    assertEquals(List.of("kept 2048:library"), ways.lines());
  }
}
