package org.nccl4j.api.init.connect;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.InvalidUsageException;

/** The exchange of connectors' handles among ranks. */
class ConnectHandlesTest {
  private static final List<ConnectHandles.Offer> SOME =
      List.of(
          new ConnectHandles.Offer(new byte[0], new byte[0], -1, ""),
          new ConnectHandles.Offer(new byte[] {1, 2, 3}, new byte[1024], -1, ""),
          new ConnectHandles.Offer(new byte[] {9}, new byte[] {8}, 70_000, "NET"));

  @Test
  void whatIsToldIsUnderstood() {
    List<ConnectHandles.Offer> read =
        ConnectHandles.fromBytes(1, ConnectHandles.toBytes(SOME), SOME.size());
    for (int peer = 0; peer < SOME.size(); peer++) {
      assertArrayEquals(SOME.get(peer).sender(), read.get(peer).sender());
      assertArrayEquals(SOME.get(peer).receiver(), read.get(peer).receiver());
      assertEquals(SOME.get(peer).relay(), read.get(peer).relay());
      assertEquals(SOME.get(peer).transport(), read.get(peer).transport());
    }
  }

  @Test
  void whatIsCutOrForOthersIsRefused() {
    byte[] told = ConnectHandles.toBytes(SOME);
    for (int length = 0; length < told.length; length++) {
      byte[] cut = Arrays.copyOf(told, length);
      InvalidUsageException e =
          assertThrows(InvalidUsageException.class, () -> ConnectHandles.fromBytes(5, cut, 3));
      assertTrue(e.getMessage().contains("rank 5"), e.getMessage());
    }
    assertThrows(InvalidUsageException.class, () -> ConnectHandles.fromBytes(5, told, 2));
  }

  @Test
  void anyBytesAreReadOrRefused() {
    Random random = new Random(3);
    for (int i = 0; i < 20_000; i++) {
      byte[] told = new byte[random.nextInt(64)];
      random.nextBytes(told);
      try {
        assertEquals(2, ConnectHandles.fromBytes(0, told, 2).size());
      } catch (InvalidUsageException e) {
        assertTrue(e.remedy().contains("the same version"), e.remedy());
      }
    }
  }
}
