package org.nccl4j.it.abi;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.NcclException;

class RankHandleTest {
  @Test
  void bytesAreUnits() {
    assertEquals(Long.MAX_VALUE / 8 * 8, RankHandle.bytes(Long.MAX_VALUE / 8, 8));
  }

  /** A size_t above the greatest signed number, a product of 2^63, and one past 64 bits. */
  @ParameterizedTest
  @ValueSource(longs = {-1, 1L << 60, 1L << 61, Long.MAX_VALUE})
  void countsThatNoMemoryHasAreRefused(long count) {
    assertThrows(NcclException.class, () -> RankHandle.bytes(count, 8));
  }
}
