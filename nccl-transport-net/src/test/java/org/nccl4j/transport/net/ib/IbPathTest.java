package org.nccl4j.transport.net.ib;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;

/**
 * Attributes of queue pairs on both link layers: the tests' library records it, and loses packets
 * that are addressed wrongly.
 */
class IbPathTest extends WithFakeVerbs {
  private static final long SUBNET = 0xfe80L << 48;
  private static final long OTHER_SUBNET = 0xfec0L << 48;

  private static String[] device(String name, String... more) {
    String[] settings = new String[more.length + 2];
    settings[0] = "NCCL_IB_HCA";
    settings[1] = "=" + name;
    System.arraycopy(more, 0, settings, 2, more.length);
    return settings;
  }

  private void assertCalls(String word, String... calls) {
    assertEquals(List.of(calls), FakeVerbs.calls(fake, word).stream().sorted().toList());
  }

  @Test
  void roceIsAddressedByGidAlone() {
    FakeVerbs.addRoce(fake, "roce0", 5);
    try (IbLink link = new IbLink()) {
      assertCalls("path", "path mtu=5 sl=0 port=1 dlid=0 global=1");
      assertCalls("grh", "grh sgid=1 dgid=0000000000000000.0000ffff7f000001 tc=0 hops=255");
      assertTrue(link.moves(1000));
    }
  }

  @Test
  void aSubnetOfInfiniBandIsAddressedByLidAlone() {
    FakeVerbs.addInfiniBand(fake, "ib0", SUBNET);
    FakeVerbs.addInfiniBand(fake, "ib1", SUBNET);
    try (IbLink link =
        new IbLink(device("ib0", "NCCL_IB_SL", "4"), device("ib1", "NCCL_IB_SL", "4"))) {
      assertCalls(
          "path",
          "path mtu=4 sl=4 port=1 dlid=7 global=0",
          "path mtu=4 sl=4 port=1 dlid=8 global=0");
      assertCalls("grh");
      assertTrue(link.moves(100_000));
    }
  }

  @Test
  void betweenSubnetsPacketsCarryBothGids() {
    FakeVerbs.addInfiniBand(fake, "ib0", SUBNET);
    FakeVerbs.addInfiniBand(fake, "ib1", OTHER_SUBNET);
    try (IbLink link = new IbLink(device("ib0"), device("ib1", "NCCL_IB_TC", "32"))) {
      assertCalls(
          "path",
          "path mtu=4 sl=0 port=1 dlid=7 global=1",
          "path mtu=4 sl=0 port=1 dlid=8 global=1");
      assertCalls(
          "grh",
          "grh sgid=0 dgid=fe80000000000000.00000000000000a0 tc=32 hops=255",
          "grh sgid=0 dgid=fec0000000000000.00000000000000a1 tc=0 hops=255");
      assertTrue(link.moves(1000));
    }
  }

  @Test
  void aGidThatNamesItsRouterIsUsedAndPacketsGoToTheRouter() {
    long router = 0x0000_0000_c123_0000L;
    int[] devices = {
      FakeVerbs.addInfiniBand(fake, "ib0", SUBNET), FakeVerbs.addInfiniBand(fake, "ib1", SUBNET)
    };
    fake.fake_set_gid(devices[0], 1, SUBNET | router | 1, 0xb0, 0);
    fake.fake_set_gid(devices[1], 1, SUBNET | router + 0x10000 | 2, 0xb1, 0);
    fake.fake_set_gid(devices[1], 2, SUBNET | router + 0x20000 | 3, 0xb2, 0);
    try (IbLink link =
        new IbLink(device("ib0"), device("ib1", "NCCL_IB_ROUTABLE_FLID_GID_INDEX", "2"))) {
      assertCalls(
          "path",
          "path mtu=4 sl=0 port=1 dlid=49443 global=1",
          "path mtu=4 sl=0 port=1 dlid=49445 global=1");
      assertCalls(
          "grh",
          "grh sgid=1 dgid=fe800000c1250003.00000000000000b2 tc=0 hops=255",
          "grh sgid=2 dgid=fe800000c1230001.00000000000000b0 tc=0 hops=255");
      assertTrue(link.moves(1000));
    }
  }

  @Test
  void theSecondPortHasItsOwnLid() {
    int device = FakeVerbs.addInfiniBand(fake, "ib0", SUBNET);
    fake.fake_set_ports(device, 2);
    try (IbLink link =
        new IbLink(new String[] {"NCCL_IB_HCA", "ib0:1"}, new String[] {"NCCL_IB_HCA", "ib0:2"})) {
      assertEquals("ib0:1", link.from.devices().get(0).name());
      assertEquals("ib0:2", link.to.devices().get(0).name());
      assertCalls(
          "path",
          "path mtu=4 sl=0 port=1 dlid=8 global=0",
          "path mtu=4 sl=0 port=2 dlid=7 global=0");
      assertTrue(link.moves(1000));
    }
  }

  @Test
  void anEndOnEachLinkLayerIsAnError() {
    FakeVerbs.addInfiniBand(fake, "ib0", SUBNET);
    FakeVerbs.addRoce(fake, "roce1", 5);
    NcclException error =
        assertThrows(
            SystemErrorException.class, () -> new IbLink(device("ib0"), device("roce1")).close());
    for (String text : List.of("ib0:1", "roce1:1", "RoCE", "InfiniBand", "NCCL_IB_HCA")) {
      assertTrue(error.getMessage().contains(text), error.getMessage());
    }
  }

  @Test
  void theFlushReadsOverTheSameLinkLayer() {
    FakeVerbs.addInfiniBand(fake, "ib0", SUBNET);
    try (IbLink link = new IbLink();
        DeviceMemory memory = IbLink.memory(64)) {
      IbReceiver receiver = (IbReceiver) link.receiver;
      NetRequest flush = receiver.flush((IbMemory) receiver.register(memory), 8);
      IbLink.await(() -> flush.test(null));
      assertCalls("path", "path mtu=4 sl=0 port=1 dlid=7 global=0");
    }
  }

  @Test
  void settingsReachTheQueuePairs() {
    FakeVerbs.addRoce(fake, "roce0", 5);
    try (IbLink link =
        new IbLink(
            "NCCL_IB_TC", "106",
            "NCCL_IB_SL", "3",
            "NCCL_IB_TIMEOUT", "14",
            "NCCL_IB_RETRY_CNT", "5",
            "NCCL_IB_GID_INDEX", "0",
            "NCCL_IB_PKEY", "2")) {
      assertCalls("init", "init pkey=2 port=1 access=6");
      assertCalls("path", "path mtu=5 sl=3 port=1 dlid=0 global=1");
      assertCalls("grh", "grh sgid=0 dgid=fe80000000000000.0000000000000001 tc=106 hops=255");
      assertCalls("ready", "ready timeout=14 retries=5");
      assertTrue(link.moves(1000));
    }
  }

  @Test
  void withoutSettingsNcclsDefaultsDo() {
    FakeVerbs.addRoce(fake, "roce0", 5);
    try (IbLink link = new IbLink()) {
      assertTrue(link.moves(0));
      assertCalls("init", "init pkey=0 port=1 access=6");
      assertCalls("ready", "ready timeout=20 retries=7");
    }
  }

  @Test
  void theSmallerMtuIsUsed() {
    FakeVerbs.addRoce(fake, "roce0", 5);
    FakeVerbs.addRoce(fake, "roce1", 3);
    try (IbLink link = new IbLink(device("roce0"), device("roce1"))) {
      assertCalls("path", "path mtu=3 sl=0 port=1 dlid=0 global=1");
      assertTrue(link.moves(10_000));
    }
  }
}
