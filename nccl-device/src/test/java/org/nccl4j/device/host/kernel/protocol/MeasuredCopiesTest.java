package org.nccl4j.device.host.kernel.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;
import static org.nccl4j.device.host.kernel.protocol.MeasuredCopies.BY_JVM;
import static org.nccl4j.device.host.kernel.protocol.MeasuredCopies.BY_LIBRARY;
import static org.nccl4j.device.host.kernel.protocol.MeasuredCopies.BY_STREAMING;

import java.util.Optional;
import java.util.Random;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.host.HostDevice;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.support.CopyWays;
import org.nccl4j.device.support.CopyWays.Kind;
import org.nccl4j.device.support.CopyWays.Way;

class MeasuredCopiesTest {
  private static final int MOST = 40_000;
  private static final int SMALL = 4 << 10;
  private static final int MIDDLE = 16 << 10;
  private static final int LARGE = 64 << 10;
  private static final int HUGE = 16 << 20;

  /** Copies from the first measured one to the last. */
  private static final int MEASUREMENT = 3 * MeasuredCopies.SPACING * MeasuredCopies.SAMPLES;

  private final HostMemory source = HostMemory.of(HostDevice.instance().allocate(MOST));
  private final HostMemory target = HostMemory.of(HostDevice.instance().allocate(MOST));

  @AfterEach
  void close() {
    source.close();
    target.close();
  }

  /** Measures copies of a size, each way with one time but for those that were disturbed. */
  private static void measure(MeasuredCopies copies, int bytes, long... picos) {
    for (int s = 0; s < copies.ways() * MeasuredCopies.SAMPLES; s++) {
      int turn = s / copies.ways();
      long time = picos[s % copies.ways()];
      copies.add(bytes, s, turn == 3 ? 1 : turn == 2 || turn == 5 ? 9000 : time);
    }
  }

  @Test
  void theMedianOfEachWayDecidesAndMayChange() {
    MeasuredCopies copies = MeasuredCopies.kept(new CopyWays());
    assertEquals(BY_JVM, copies.way(SMALL), "before it is measured");
    assertEquals(BY_LIBRARY, copies.way(LARGE), "before it is measured");
    measure(copies, LARGE, 90, 100);
    assertEquals(BY_JVM, copies.way(LARGE));
    measure(copies, LARGE, 100, 90);
    assertEquals(BY_LIBRARY, copies.way(LARGE));
  }

  @Test
  void eachClassOfSizesHasItsChoice() {
    MeasuredCopies copies = MeasuredCopies.kept(new CopyWays());
    measure(copies, SMALL, 100, 90);
    measure(copies, MIDDLE, 90, 100);
    assertEquals(BY_LIBRARY, copies.way(MeasuredCopies.LEAST_BYTES));
    assertEquals(BY_LIBRARY, copies.way(2 * SMALL - 1));
    assertEquals(BY_JVM, copies.way(2 * SMALL));
    assertEquals(BY_JVM, copies.way(2 * MIDDLE - 1));
    assertEquals(BY_LIBRARY, copies.way(2 * MIDDLE));
    measure(copies, LARGE, 90, 100);
    assertEquals(BY_JVM, copies.way(4 * LARGE - 1));
    assertEquals(BY_LIBRARY, copies.way(4 * LARGE));
  }

  @Test
  void slotsAreStreamedIntoWhereThatSavesMuch() {
    MeasuredCopies copies = MeasuredCopies.intoSlots(new CopyWays());
    assumeTrue(copies.ways() == 3, "no streaming stores here");
    measure(copies, LARGE, 100, 110, 70);
    assertEquals(BY_STREAMING, copies.way(LARGE));
    measure(copies, LARGE, 100, 110, 80);
    assertEquals(BY_JVM, copies.way(LARGE));
    measure(copies, LARGE, 100, 90, 70);
    assertEquals(BY_LIBRARY, copies.way(LARGE));
  }

  @Test
  void dataThatLeaveAreStreamedUnlessThatIsMuchSlower() {
    MeasuredCopies copies = MeasuredCopies.leaving(new CopyWays());
    assumeTrue(copies.ways() == 3, "no streaming stores here");
    assertEquals(BY_STREAMING, copies.way(LARGE), "before it is measured");
    measure(copies, LARGE, 100, 110, 124);
    assertEquals(BY_STREAMING, copies.way(LARGE));
    measure(copies, LARGE, 100, 90, 120);
    assertEquals(BY_LIBRARY, copies.way(LARGE));
  }

  /** A connection begins with the way that another has found, and tells its own. */
  @Test
  void theFirstMeasurementOfAConnectionIsForTheNext() {
    CopyWays ways = new CopyWays();
    MeasuredCopies first = MeasuredCopies.kept(ways);
    measure(first, LARGE, 90, 100);
    assertEquals(Optional.of(Way.JVM), ways.way(Kind.KEPT, 2));
    assertEquals(Optional.empty(), ways.way(Kind.SLOTS, 2));
    MeasuredCopies second = MeasuredCopies.kept(ways);
    second.copy(source, 0, target, 0, MOST);
    assertEquals(BY_JVM, second.way(LARGE));
    measure(second, LARGE, 100, 90);
    assertEquals(Optional.of(Way.LIBRARY), ways.way(Kind.KEPT, 2));
    assertEquals(BY_JVM, first.way(LARGE), "measures itself");
  }

  /** Ways that become known after a connection's first copies count until it measures. */
  @Test
  void waysThatAreKnownLaterCountToo() {
    CopyWays ways = new CopyWays();
    MeasuredCopies copies = MeasuredCopies.kept(ways);
    for (int copy = 0; copy < MeasuredCopies.FIRST; copy++) {
      copies.copy(source, 0, target, 0, MOST);
    }
    assertEquals(BY_LIBRARY, copies.way(MOST));
    ways.choose(Kind.KEPT, 2, Way.JVM);
    copies.copy(source, 0, target, 0, MOST);
    assertEquals(BY_JVM, copies.way(MOST));
    ways.choose(Kind.KEPT, 2, Way.LIBRARY);
    for (int copy = 0; copy < 1000; copy++) {
      copies.copy(source, 0, target, 0, MOST);
    }
    assertEquals(BY_JVM, copies.way(MOST), "the first measurement comes a period later");
  }

  /** As a rank's copies for itself and its peers, which follow each other in a fixed order. */
  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 4, 6, 8, 12})
  void theOrderOfCopiesDoesNotDecide(int targets) {
    all()
        .forEach(
            copies -> {
              for (int copy = 0; copy < MeasuredCopies.PERIOD; copy++) {
                int way = copies.turn(LARGE);
                int sample = copies.sample(LARGE);
                if (sample >= 0) {
                  int time = copy % targets == 0 ? 1 : 3;
                  copies.add(LARGE, sample, time * (way == BY_LIBRARY ? 100 : 150));
                }
              }
              assertEquals(BY_LIBRARY, copies.way(LARGE));
            });
  }

  /** A few large copies are as much work as many small ones. */
  @Test
  void aPeriodOfLargeCopiesIsShort() {
    CopyWays ways = new CopyWays();
    ways.choose(Kind.KEPT, 3, Way.JVM);
    MeasuredCopies copies = MeasuredCopies.kept(ways);
    int measured = -1;
    for (int copy = 0; copy < 200 && measured < 0; copy++) {
      assertEquals(BY_JVM, copies.turn(HUGE));
      measured = copies.sample(HUGE);
    }
    assertEquals(0, measured, "the way is measured soon");
  }

  /** Sums go straight to their target then, but for those that are measured. */
  @Test
  void nothingIsStagedWhereNothingIsStreamed() {
    CopyWays ways = new CopyWays();
    ways.choose(Kind.SUMS, 1, Way.LIBRARY);
    MeasuredCopies copies = MeasuredCopies.leaving(ways, Kind.SUMS);
    assumeTrue(copies.ways() == 3, "no streaming stores here");
    int staged = 0;
    for (int copy = 0; copy < MeasuredCopies.PERIOD * 3 / 2; copy++) {
      if (copies.streams(MIDDLE)) {
        staged++;
        int way = copies.turn(MIDDLE);
        copies.add(MIDDLE, copies.sample(MIDDLE), way == BY_STREAMING ? 200 : 100);
      }
    }
    assertEquals(3 * MeasuredCopies.SAMPLES, staged);
    measure(copies, MIDDLE, 100, 100, 10);
    assertTrue(copies.streams(MIDDLE));
    assertFalse(MeasuredCopies.kept(ways).streams(MIDDLE));
  }

  @Test
  void aWayThatThisProcessLacksIsLeftOut() {
    CopyWays ways = new CopyWays();
    ways.choose(Kind.KEPT, 2, Way.STREAMING); // kept copies are never streamed
    MeasuredCopies copies = MeasuredCopies.kept(ways);
    copies.copy(source, 0, target, 0, MOST);
    assertEquals(BY_LIBRARY, copies.way(MOST));
  }

  static Stream<MeasuredCopies> all() {
    return Stream.of(
        MeasuredCopies.intoSlots(new CopyWays()),
        MeasuredCopies.kept(new CopyWays()),
        MeasuredCopies.kept(new CopyWays(), Kind.OWN),
        MeasuredCopies.leaving(new CopyWays()));
  }

  /** Before, in and after a measurement. */
  @ParameterizedTest
  @MethodSource("all")
  void eachCopyIsWhole(MeasuredCopies copies) {
    long seed = Long.getLong("nccl4j.seed", 1);
    Random random = new Random(seed);
    for (int turn = 0; turn < 4 * (MeasuredCopies.FIRST + MEASUREMENT); turn++) {
      check(copies, 1 + random.nextInt(MOST - 100), random, "seed " + seed + ", turn " + turn);
    }
  }

  @ParameterizedTest
  @MethodSource("all")
  void eachWayCopiesAllSizesAtOddPlaces(MeasuredCopies copies) {
    Random random = new Random(1);
    for (int way = 0; way < copies.ways(); way++) {
      long[] picos = {100, 100, 100};
      picos[way] = 10;
      for (int size : new int[] {SMALL, MIDDLE, LARGE}) {
        measure(copies, size, picos);
        assertEquals(way, copies.way(size));
      }
      for (int bytes = 0; bytes <= 300; bytes++) {
        check(copies, bytes, random, "few");
        check(copies, MeasuredCopies.LEAST_BYTES + bytes, random, "way " + way);
        check(copies, MOST - 100 - bytes, random, "way " + way);
      }
    }
  }

  private void check(MeasuredCopies copies, int bytes, Random random, String where) {
    int from = random.nextInt(100);
    int to = random.nextInt(99);
    byte value = (byte) random.nextInt();
    target.window(to + bytes).put(target.index(to + bytes), (byte) ~value);
    int[] places =
        bytes == 0 ? new int[0] : new int[] {0, random.nextInt(bytes), bytes / 2, bytes - 1};
    for (int at : places) {
      source.window(from + at).put(source.index(from + at), value);
      target.window(to + at).put(target.index(to + at), (byte) ~value);
    }
    copies.copy(source, from, target, to, bytes);
    String text = "%s, %d bytes from %d to %d, byte ".formatted(where, bytes, from, to);
    for (int at : places) {
      assertEquals(value, target.window(to + at).get(target.index(to + at)), text + at);
    }
    long end = to + bytes;
    assertEquals((byte) ~value, target.window(end).get(target.index(end)), text + "after");
  }
}
