package org.nccl4j.transport.net.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.transport.net.NetChannelCount;

/** Ends lie side by side and none touches another, whatever GPUs' slots are like. */
class GdrSlotPoolTest {
  private static final int CHANNELS = ConnectionLayout.CHANNELS;

  @Test
  void everyEndHasItsWordsBeforeTheBoundaryAndItsSlotsToItself() {
    for (int part = 512; part <= 64 << 10; part *= 2) {
      for (int lines = 512; lines <= 8 << 10; lines *= 2) {
        for (int channels = 1; channels <= NetChannelCount.MOST; channels++) {
          check(
              new ConnectionLayout(CHANNELS * lines, CHANNELS * lines, CHANNELS * part),
              (long) channels * part);
        }
      }
    }
  }

  private static void check(ConnectionLayout layout, long used) {
    long step = GdrSlotPool.step(used);
    int places = GdrSlotPool.places(layout, used);
    String which = layout + " with " + used + " bytes used";
    assertTrue(places >= 1, which);
    assertEquals(0, step % 4096, which);
    long lastWords = (places - 1) * step - layout.simple(0) + 2 * ConnectionLayout.CREDIT_BYTES;
    assertTrue(lastWords <= 0, which);
    assertTrue(step >= 2 * ConnectionLayout.CREDIT_BYTES && step >= used, which);
    assertTrue((places - 1) * step + used <= layout.simpleSlotBytes(), which);
  }

  /**
   * Neighbours have more channels than other pairs, and the two kinds come in any order. No channel
   * of an end lies in another's place, nor behind its slot.
   */
  @Test
  void endsWithOtherNumbersOfChannelsDoNotOverlap() {
    ConnectionLayout eightGpus = new ConnectionLayout(128 << 10, 127 << 10, 2 << 20);
    Random random = new Random(5);
    for (int round = 0; round < 100; round++) {
      List<GdrSlotPool> pools = new ArrayList<>();
      Map<GdrSlotPool, List<long[]>> taken = new IdentityHashMap<>();
      for (int end = 0; end < 40; end++) {
        int channels = new int[] {2, 16, 21, NetChannelCount.MOST}[random.nextInt(4)];
        long used = (long) channels * (eightGpus.simpleSlotBytes() / CHANNELS);
        GdrSlotPool pool = GdrSlotPool.withRoom(pools, used).orElse(null);
        if (pool == null) {
          pool = new GdrSlotPool(null, eightGpus, used);
          pools.add(pool);
        }
        long from = pool.next();
        List<long[]> others = taken.computeIfAbsent(pool, missing -> new ArrayList<>());
        for (long[] other : others) {
          assertTrue(from >= other[1] || from + used <= other[0], channels + " channels");
        }
        others.add(new long[] {from, from + used});
        assertTrue(from + used <= eightGpus.simpleSlotBytes(), channels + " channels");
        assertTrue(from + 2 * ConnectionLayout.CREDIT_BYTES <= eightGpus.simple(0));
      }
    }
  }

  /** Ends of two kinds by turns fill a pool of each, and not one each. */
  @Test
  void poolsWithRoomStayInUse() {
    ConnectionLayout eightGpus = new ConnectionLayout(128 << 10, 127 << 10, 2 << 20);
    List<GdrSlotPool> pools = new ArrayList<>();
    for (int end = 0; end < 6; end++) {
      long used = (end % 2 == 0 ? 2 : 16) * (32L << 10);
      GdrSlotPool.withRoom(pools, used)
          .orElseGet(
              () -> {
                pools.add(new GdrSlotPool(null, eightGpus, used));
                return pools.get(pools.size() - 1);
              })
          .next();
    }
    assertEquals(2, pools.size());
  }

  @Test
  void sixteenRanksOfOtherHostsShareABank() {
    ConnectionLayout eightGpus = new ConnectionLayout(128 << 10, 127 << 10, 1 << 20);
    assertEquals(32, GdrSlotPool.places(eightGpus, 2 * (16 << 10)));
  }
}
