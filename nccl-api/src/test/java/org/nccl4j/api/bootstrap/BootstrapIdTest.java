package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.os.KernelRandom;

class BootstrapIdTest {
  @Test
  void survivesEncoding() throws UnknownHostException {
    List<InetSocketAddress> addresses =
        List.of(
            new InetSocketAddress(InetAddress.getByName("10.1.2.3"), 65535),
            new InetSocketAddress(InetAddress.getByName("fd00::2"), 65535),
            InetSocketAddress.createUnresolved("a.name", 65535));
    BootstrapId id = new BootstrapId(true, addresses, KernelRandom.bytes(16));
    BootstrapId back = BootstrapId.decode(id.encode());
    assertEquals(addresses, back.addresses());
    assertArrayEquals(id.secret(), back.secret());
    assertTrue(back.startedByFirstRank());
    assertTrue(id.encode().length <= BootstrapId.MAX_BYTES);
    assertEquals("10.1.2.3:65535 or [fd00:0:0:0:0:0:0:2]:65535 or a.name:65535", back.where());
  }

  /** A host may have its own name in /etc/hosts, for a loopback address. */
  @Test
  void aRootListensWhereOtherHostsReachItsName() throws UnknownHostException {
    assertListens("10.1.2.3", "10.1.2.3", "10.1.2.3");
    assertListens("127.0.1.1", "127.0.1.1", "127.0.1.1");
    assertListens("fd00::2", "fd00::2", "fd00::2");
    assertListens("10.1.2.3", "a.name", "10.1.2.3");
    assertListens("127.0.0.1", "localhost", "127.0.0.1", "::1");
    assertListens(null, "a.name", "127.0.1.1");
    assertListens(null, "a.name", "127.0.1.1", "::1");
    assertListens(null, "a.name", "10.1.2.3", "fd00::2");
  }

  private static void assertListens(String where, String name, String... resolved)
      throws UnknownHostException {
    List<InetSocketAddress> addresses =
        Arrays.stream(resolved).map(each -> new InetSocketAddress(each, 1)).toList();
    assertEquals(
        where == null ? null : InetAddress.getByName(where),
        BootstrapRoot.listening(name, addresses));
  }

  @Test
  void bytesThatAreNoIdAreRefusedAndNothingElseHappens() throws UnknownHostException {
    long seed = Long.getLong("nccl4j.seed", 1);
    System.out.println("seed " + seed);
    Random random = new Random(seed);
    byte[] good =
        new BootstrapId(
                false,
                List.of(new InetSocketAddress(InetAddress.getByName("10.1.2.3"), 1)),
                new byte[16])
            .encode();
    for (int length = 0; length < good.length; length++) {
      byte[] cut = Arrays.copyOf(good, length);
      assertThrows(InvalidArgumentException.class, () -> BootstrapId.decode(cut));
    }
    for (int i = 0; i < 20_000; i++) {
      byte[] bytes = Arrays.copyOf(good, random.nextInt(200));
      for (int change = random.nextInt(4); change >= 0 && bytes.length > 0; change--) {
        bytes[random.nextInt(bytes.length)] = (byte) random.nextInt();
      }
      try {
        assertTrue(BootstrapId.decode(bytes).encode().length <= BootstrapId.MAX_BYTES);
      } catch (InvalidArgumentException e) {
        assertFalse(e.remedy().isEmpty());
      }
    }
  }

  @Test
  void anIdFromTheSettingIsTheSameForAllAndDependsOnTheSecret() {
    assertArrayEquals(made("h:29500", "").encode(), made("h:29500", "").encode());
    assertFalse(Arrays.equals(made("h:29500", "").encode(), made("h:29500", "x").encode()));
    assertFalse(Arrays.equals(made("h:29500", "").secret(), made("h:29501", "").secret()));
    assertEquals("fd00::1", made("[fd00::1]:29500", "").addresses().get(0).getHostString());
    for (String wrong : List.of("h", "h:", ":1", "h:0", "h:65536", "h:x", "h:-1")) {
      assertThrows(InvalidArgumentException.class, () -> made(wrong, ""));
    }
    assertThrows(InvalidArgumentException.class, () -> made("h".repeat(200) + ":1", "").encode());
  }

  private static BootstrapId made(String commId, String secret) {
    return BootstrapRoot.create(
        Ranks.options(Map.of("NCCL_COMM_ID", commId, "NCCL4J_COMM_SECRET", secret)), Ranks.LONG);
  }
}
