package org.nccl4j.api.plan.algorithm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.kernel.KernelDevice.BlockRoom;

/** The limits of blocks by the rank whose GPU has the least room. */
class SmallGpuLimitsTest {
  private static final CtaLimits UNSET = new CtaLimits(1, 64, 64);

  /** Collectives leave half of the multiprocessors to another communicator. */
  @ParameterizedTest
  @CsvSource({
    "T4, 40, 40, 20, 10",
    "RTX 3060, 28, 56, 14, 7",
    "RTX 4060, 24, 48, 12, 6",
    "MIG 1g of an H100, 16, 32, 8, 4",
    "MIG 1g of an A100, 14, 28, 7, 3",
    "Jetson Orin Nano, 8, 16, 4, 2",
    "one multiprocessor, 1, 2, 1, 1"
  })
  void aSmallGpuHasRoomForAllBlocks(String gpu, int blocks, int messages, int most, int sends) {
    BlockRoom room = new BlockRoom(blocks, messages);
    CtaLimits limits = UNSET.within(room);
    assertEquals(most, limits.limit(64), gpu);
    assertEquals(most, limits.mostOfDevice());
    assertEquals(sends, limits.channels(2));
    assertTrue(2 * sends <= Math.max(2, room.mostMessageBlocks()), "of a send and a receive");
    assertEquals(1, limits.channels(126));
  }

  @ParameterizedTest
  @CsvSource({"H200, 132, 264", "H100 PCIe, 114, 228", "A100, 108, 216", "A10, 72, 144"})
  void aLargeGpuLimitsNothing(String gpu, int blocks, int messages) {
    assertEquals(UNSET, UNSET.within(new BlockRoom(blocks, messages)), gpu);
  }

  /** An RTX 2080 Ti has as many multiprocessors as there are channels, with 1024 threads each. */
  @Test
  void bothDirectionsOfAMessageFitAtOnce() {
    CtaLimits limits = UNSET.within(new BlockRoom(68, 68));
    assertEquals(64, limits.limit(64));
    assertEquals(34, limits.channels(2));
  }

  @Test
  void theUsersLimitCountsWhereItIsLower() {
    BlockRoom room = new BlockRoom(40, 40);
    assertEquals(3, new CtaLimits(1, 3, 64).within(room).limit(64));
    assertEquals(20, new CtaLimits(32, 64, 64).within(room).limit(64), "NCCL_MIN_CTAS");
    assertEquals(2, new CtaLimits(1, 64, 2).within(room).channels(2));
  }

  @Test
  void ranksOnOneGpuShareItsRoom() {
    BlockRoom two = new BlockRoom(132, 264).sharedBy(2);
    assertEquals(UNSET, UNSET.within(two));
    assertEquals(16, UNSET.within(new BlockRoom(132, 264).sharedBy(4)).limit(64));
    assertEquals(new BlockRoom(28, 40), new BlockRoom(40, 40).least(new BlockRoom(28, 56)));
  }
}
