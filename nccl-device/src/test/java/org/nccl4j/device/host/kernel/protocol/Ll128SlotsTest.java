package org.nccl4j.device.host.kernel.protocol;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.nccl4j.device.connection.ConnectionLayout;

/** The places of LL128 slots: no byte is of two slots, or of a slot and something else. */
class Ll128SlotsTest {
  private static final ConnectionLayout LAYOUT = new ConnectionLayout(512, 2048, 256);
  private static final int LARGEST = 2048 - ConnectionEnd.LL128_DATA;

  @Test
  void slotsAreApart() {
    long[] owner = new long[(int) LAYOUT.dataBytes()];
    take(owner, ConnectionLayout.TAIL, ConnectionLayout.WORD_STRIDE, -1);
    for (int step = 0; step < ConnectionLayout.STEPS; step++) {
      take(owner, LAYOUT.ll(step), 512, -1);
      take(owner, LAYOUT.simple(step), 256, -1);
    }
    int[] most = {
      Ll128Slots.WORD_DATA,
      Ll128Slots.LINE_DATA,
      Ll128Slots.TRIPLE_DATA,
      Ll128Slots.SHORT_DATA,
      LARGEST,
    };
    for (int kind = 0; kind < most.length; kind++) {
      int bytes = most[kind];
      for (int step = 0; step < Ll128Slots.count(bytes); step++) {
        long slot = Ll128Slots.slot(LAYOUT, step, bytes);
        take(owner, slot, ConnectionEnd.LL128_DATA + bytes, 1000L * (kind + 1) + step);
      }
    }
  }

  private static void take(long[] owner, long from, long bytes, long who) {
    for (int at = (int) from; at < from + bytes; at++) {
      assertEquals(0, owner[at], "byte " + at + " is of " + who + " too");
      owner[at] = who;
    }
  }

  @Test
  void stepsOfTheShortWayAreAheadByMoreThanLargeOnes() {
    assertTrue(Ll128Slots.count(SlotPrimitives.SHORT) > ConnectionLayout.STEPS);
  }

  @Test
  void aSlotIsUsedAgainWhenItsCountHasPassed() {
    for (int bytes = 1; bytes <= LARGEST; bytes++) {
      int count = Ll128Slots.count(bytes);
      for (long step = 0; step < count; step++) {
        long slot = Ll128Slots.slot(LAYOUT, step, bytes);
        assertEquals(slot, Ll128Slots.slot(LAYOUT, step + 5L * count, bytes));
      }
    }
  }

  @Test
  void whatFitsIntoTheLineOfTheFlagLiesInOneLine() {
    for (int bytes = 1; bytes <= Ll128Slots.LINE_DATA; bytes++) {
      for (int step = 0; step < Ll128Slots.count(bytes); step++) {
        long slot = Ll128Slots.slot(LAYOUT, step, bytes);
        assertEquals(slot / 64, (slot + ConnectionEnd.LL128_DATA + bytes - 1) / 64);
      }
    }
  }

  @Test
  void slotsOfWholeLinesShareNoLine() {
    for (int bytes = Ll128Slots.WORD_DATA + 1; bytes <= Ll128Slots.SHORT_DATA; bytes++) {
      for (int step = 0; step < Ll128Slots.count(bytes); step++) {
        assertEquals(0, Ll128Slots.slot(LAYOUT, step, bytes) % 64);
      }
    }
  }

  @Test
  void flagsAreWordsThatAreStoredAtOnce() {
    for (int bytes = 1; bytes <= LARGEST; bytes++) {
      for (int step = 0; step < Ll128Slots.count(bytes); step++) {
        assertEquals(0, Ll128Slots.slot(LAYOUT, step, bytes) % Long.BYTES);
      }
    }
  }
}
