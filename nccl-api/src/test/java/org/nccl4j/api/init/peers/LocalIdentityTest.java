package org.nccl4j.api.init.peers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.host.HostDevice;

class LocalIdentityTest {
  @Test
  void aShortNameIsToldAsItIs() {
    assertEquals("rack 3", LocalIdentity.hostId("rack 3"));
    String longest = "x".repeat(256);
    assertEquals(longest, LocalIdentity.hostId(longest));
  }

  /** It travels in messages of bounded length, once for each rank. */
  @Test
  void aLongNameIsToldByItsHash() {
    String name = "x".repeat(100_000);
    String told = LocalIdentity.hostId(name);
    assertTrue(told.length() <= 256, told);
    assertTrue(told.startsWith("x".repeat(100)), told);
    assertEquals(told, LocalIdentity.hostId("x".repeat(100_000)));
    assertNotEquals(told, LocalIdentity.hostId(name + "x"));
    assertNotEquals(told, LocalIdentity.hostId("x".repeat(99_999) + "y"));
    PeerInfo peer = LocalIdentity.of(3, HostDevice.instance(), name, List.of());
    assertEquals(told, peer.hostId());
  }

  @Test
  void withoutANameTheMachineIsTheHost() {
    assertEquals(LocalIdentity.hostId(""), LocalIdentity.hostId(""));
    assertFalse(LocalIdentity.hostId("").isBlank());
  }

  /** Two file systems in memory have two numbers, whatever their paths. */
  @Test
  void theDirectoryOfSocketsSaysWhichProcessesShareMemory() {
    PeerInfo peer = LocalIdentity.of(0, HostDevice.instance(), "", List.of());
    assertEquals(
        peer.ipcNamespace(),
        LocalIdentity.of(1, HostDevice.instance(), "", List.of()).ipcNamespace());
    assertTrue(peer.ipcNamespace().matches("/\\S+ \\d+:\\d+ user:\\[\\d+]"), peer.ipcNamespace());
  }
}
