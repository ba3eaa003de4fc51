package org.nccl4j.api.init.connect;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.InvalidUsageException;

/** The exchange of connectors' handles among ranks. */
class ConnectHandlesTest {
  private static final Map<Integer, ConnectHandles.Offer> SOME =
      Map.of(
          3,
          new ConnectHandles.Offer(new byte[0], new byte[0], -1, ""),
          70_001,
          new ConnectHandles.Offer(new byte[] {1, 2, 3}, new byte[1024], -1, ""),
          0,
          new ConnectHandles.Offer(new byte[] {9}, new byte[] {8}, 70_000, "NET"));

  @Test
  void whatIsToldIsUnderstood() {
    byte[] told = ConnectHandles.toBytes(SOME);
    SOME.forEach(
        (peer, offer) -> assertSame(offer, ConnectHandles.find(1, told, peer).orElseThrow()));
    assertTrue(ConnectHandles.find(1, told, 4).isEmpty());
    Map<Integer, ConnectHandles.Offer> relayed = ConnectHandles.relayedBy(70_000, 1, told);
    assertEquals(Set.of(0), relayed.keySet());
    assertSame(SOME.get(0), relayed.get(0));
    assertTrue(ConnectHandles.relayedBy(3, 1, told).isEmpty());
  }

  private static void assertSame(ConnectHandles.Offer offer, ConnectHandles.Offer read) {
    assertArrayEquals(offer.sender(), read.sender());
    assertArrayEquals(offer.receiver(), read.receiver());
    assertEquals(offer.relay(), read.relay());
    assertEquals(offer.transport(), read.transport());
  }

  @Test
  void whatIsCutIsRefused() {
    byte[] told = ConnectHandles.toBytes(Map.of(2, SOME.get(0)));
    for (int length = 1; length < told.length; length++) {
      byte[] cut = Arrays.copyOf(told, length);
      InvalidUsageException e =
          assertThrows(InvalidUsageException.class, () -> ConnectHandles.find(5, cut, 2));
      assertTrue(e.getMessage().contains("rank 5"), e.getMessage());
    }
  }

  @Test
  void anyBytesAreReadOrRefused() {
    Random random = new Random(3);
    for (int i = 0; i < 20_000; i++) {
      byte[] told = new byte[random.nextInt(64)];
      random.nextBytes(told);
      try {
        ConnectHandles.find(0, told, random.nextInt());
        ConnectHandles.relayedBy(random.nextInt(), 0, told);
      } catch (InvalidUsageException e) {
        assertTrue(e.remedy().contains("the same version"), e.remedy());
      }
    }
  }
}
