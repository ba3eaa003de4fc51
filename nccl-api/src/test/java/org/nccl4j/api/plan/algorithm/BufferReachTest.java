package org.nccl4j.api.plan.algorithm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.nccl4j.api.plan.algorithm.BufferReach.By;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** The algorithms that work on buffers in windows. */
class BufferReachTest {
  private static boolean allows(By send, By recv, boolean overlaps, Operation operation) {
    return new BufferReach(send, recv, overlaps, /* askew= */ false, /* covered= */ false)
        .allows(Algorithm.DIRECT_ONE_SHOT, operation);
  }

  /** A rank whose receive buffer lies in no window does not know where those of others lie. */
  @Test
  void algorithmsThatNeedTheBuffersApartNeedBothInWindows() {
    for (By recv : By.values()) {
      assertEquals(recv != By.OWN, allows(By.PEERS, recv, false, Operation.ALL_REDUCE));
      assertFalse(allows(By.PEERS, recv, true, Operation.ALL_REDUCE));
      assertTrue(allows(By.PEERS, recv, false, Operation.REDUCE));
    }
    assertFalse(allows(By.OWN, By.PEERS, false, Operation.ALL_REDUCE));
  }

  /** The switch combines packs, and gives them out where they lie alike. */
  @Test
  void nvlsInPlaceSumsBuffersThatLieAlike() {
    for (boolean askew : new boolean[] {false, true}) {
      BufferReach reach = new BufferReach(By.MULTICAST, By.MULTICAST, false, askew, false);
      assertEquals(!askew, reach.allows(Algorithm.DIRECT_NVLS, Operation.ALL_REDUCE));
      assertTrue(reach.allows(Algorithm.DIRECT_TWO_SHOT, Operation.ALL_REDUCE));
      assertTrue(reach.allows(Algorithm.DIRECT_NVLS, Operation.REDUCE_SCATTER));
    }
  }
}
