package org.nccl4j.transport.net.ib;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.Support;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.bind.NativeLibrary;
import org.nccl4j.transport.net.ib.bind.FakeVerbsFunctions;
import org.nccl4j.transport.net.ib.device.HcaFilter;
import org.nccl4j.transport.net.ib.verbs.Verbs;
import org.nccl4j.transport.net.ib.verbs.VerbsLayout;

/** The log names the machine's devices and why they cannot be used. */
class IbProviderTest extends WithFakeVerbs {
  private static final int DOWN = 1;
  private static final int INITIALIZING = 2;

  private static Support support(String... settings) {
    return new IbProvider().support(FakeVerbs.context(0, settings));
  }

  private static void assertNo(Support support, String... texts) {
    assertFalse(support.possible(), support.reason());
    for (String text : texts) {
      assertTrue(support.reason().contains(text), text + " in: " + support.reason());
    }
  }

  private int ethernet(String name, int transport, int state) {
    return fake.fake_add_device(name, transport, state, VerbsLayout.LINK_LAYER_ETHERNET, 5);
  }

  @Test
  void aGoodDeviceIsDescribed() {
    FakeVerbs.addRoce(fake, "roce0", 4);
    Support support = support();
    assertTrue(support.possible());
    assertEquals(
        "roce0:1 GID 1: 0:0:0:0:0:ffff:7f00:1 (RoCE v2)"
            .replace("0:0:0:0:0:ffff:7f00:1", "127.0.0.1"),
        support.reason());
    NetDevice device = new IbProvider().open(FakeVerbs.context(0)).devices().get(0);
    assertEquals("roce0:1", device.name());
    assertEquals(200_000, device.megabits());
    assertEquals(8, device.maxReceives());
    assertEquals(1 << 30, device.maxBytes());
    assertTrue(device.pointers().contains(NetDevice.Pointers.HOST));
  }

  /** Another file of the library is another library, which nobody has called yet. */
  @Test
  void registeredMemoryIsKeptFromChildrenBeforeAnyIsRegistered(@TempDir Path folder)
      throws IOException {
    String library =
        Files.copy(Path.of(FakeVerbs.path()), folder.resolve("libanother.so")).toString();
    Verbs.load(library);
    Verbs.load(library);
    assertEquals(
        "ibv_fork_init\n",
        NativeLibrary.load(FakeVerbsFunctions.class, library).fake_calls(),
        "once, before all else");
  }

  @Test
  void noLibrary() {
    assertNo(
        support("NCCL_IBVERBS_LIB", "/nowhere/libibverbs.so.1"),
        "/nowhere/libibverbs.so.1",
        "apt-get install libibverbs1");
  }

  @Test
  void noDeviceAtAll() {
    assertNo(support(), "/dev/infiniband");
  }

  @Test
  void forbidden() {
    FakeVerbs.addRoce(fake, "roce0", 5);
    assertNo(support("NCCL_IB_DISABLE", "1"), "NCCL_IB_DISABLE=1");
  }

  @Test
  void eachRejectedPortHasItsReason() {
    FakeVerbs.addRoce(fake, "left0", 5);
    ethernet("down0", VerbsLayout.TRANSPORT_IB, DOWN);
    fake.fake_add_device(
        "ib0", VerbsLayout.TRANSPORT_IB, INITIALIZING, VerbsLayout.LINK_LAYER_INFINIBAND, 5);
    ethernet("iwarp0", VerbsLayout.TRANSPORT_IWARP, VerbsLayout.PORT_ACTIVE);
    assertNo(
        support("NCCL_IB_HCA", "^left"),
        "left0:1: NCCL_IB_HCA=^left leaves it out",
        "down0:1: it is down",
        "ib0:1: it is initializing (no subnet manager",
        "iwarp0:1: it is iWARP");
  }

  @Test
  void noGid() {
    ethernet("roce0", VerbsLayout.TRANSPORT_IB, VerbsLayout.PORT_ACTIVE);
    assertNo(support(), "roce0:1", "no GID", "IP address");
  }

  @Test
  void aGidThatIsNotThere() {
    FakeVerbs.addRoce(fake, "roce0", 5);
    InvalidArgumentException error =
        assertThrows(InvalidArgumentException.class, () -> support("NCCL_IB_GID_INDEX", "3"));
    for (String text :
        new String[] {"NCCL_IB_GID_INDEX=3", "roce0:1", "1: 127.0.0.1 (RoCE v2)", "unset it"}) {
      assertTrue(error.getMessage().contains(text), error.getMessage());
    }
  }

  @Test
  void gidsAreChosen() {
    int device = ethernet("roce0", VerbsLayout.TRANSPORT_IB, VerbsLayout.PORT_ACTIVE);
    fake.fake_set_gid(device, 0, 0xfe80L << 48, 5, VerbsLayout.GID_TYPE_ROCE_V2);
    assertTrue(support().reason().contains("GID 0: fe80"));
    fake.fake_set_gid(device, 1, 0, 0x0000ffff0a630001L, VerbsLayout.GID_TYPE_ROCE_V1);
    assertTrue(support().reason().contains("GID 0: fe80"), "v2 before v1");
    fake.fake_set_gid(device, 2, 0x2001L << 48, 5, VerbsLayout.GID_TYPE_ROCE_V2);
    assertTrue(support().reason().contains("GID 2: 2001"), "routed before link-local");
    fake.fake_set_gid(device, 3, 0, 0x0000ffff0a630001L, VerbsLayout.GID_TYPE_ROCE_V2);
    assertTrue(support().reason().contains("GID 3: 10.99.0.1"), "IPv4 before IPv6");
    assertTrue(support("NCCL_IB_GID_INDEX", "1").reason().contains("GID 1: 10.99.0.1 (RoCE v1)"));
  }

  @Test
  void deviceFilesThatCannotBeOpened() {
    FakeVerbs.addRoce(fake, "roce0", 5);
    fake.fake_fail("ibv_open_device", 13, 0);
    assertNo(support(), "roce0", "Permission denied", "/dev/infiniband");
  }

  /** A path names its GID in a byte. */
  @Test
  void gidsBeyondThoseThatAPathCanNameAreLeftOut() {
    int device = FakeVerbs.addRoce(fake, "roce0", 5);
    fake.fake_set_gid(device, 1, 0xfe80L << 48, 5, VerbsLayout.GID_TYPE_ROCE_V2);
    fake.fake_set_gid(device, 257, 0, 0x0000ffff0a630001L, VerbsLayout.GID_TYPE_ROCE_V2);
    assertTrue(support().reason().contains("GID 1:"), support().reason());
    assertThrows(InvalidArgumentException.class, () -> support("NCCL_IB_GID_INDEX", "257"));
    assertThrows(InvalidArgumentException.class, () -> support("NCCL_IB_GID_INDEX", "255"));
  }

  @Test
  void theGidTableOfOldLibraries() {
    FakeVerbs.addRoce(fake, "roce0", 5);
    fake.fake_fail("_ibv_query_gid_table", 95, 0);
    assertTrue(support().reason().contains("127.0.0.1"));
  }

  @Test
  void theReportNamesEveryPort() {
    FakeVerbs.addRoce(fake, "roce0", 5);
    ethernet("down0", VerbsLayout.TRANSPORT_IB, DOWN);
    IbReport report = IbReport.of(FakeVerbs.context(0));
    assertEquals(
        "[roce0:1 RoCE active, 200000 Mbit/s, MTU 4096, GIDs [0: fe80:0:0:0:0:0:0:1 (RoCE v1),"
            + " 1: 127.0.0.1 (RoCE v2)]; uses GID 1]",
        report.ports().toString());
    assertEquals("{down0:1=it is down}", report.unusable().toString());
    assertEquals("", report.nothing());
    IbReport wrong = IbReport.of(FakeVerbs.context(0, "NCCL_IB_GID_INDEX", "3"));
    assertTrue(wrong.unusable().get("roce0:1").contains("NCCL_IB_GID_INDEX=3"));
    IbReport none = IbReport.of(FakeVerbs.context(0, "NCCL_IBVERBS_LIB", "/nowhere.so"));
    assertFalse(none.libraryLoads());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "NCCL_IB_GID_INDEX          | x",
        "NCCL_IB_GID_INDEX          | -2",
        "NCCL_IB_TC                 | 256",
        "NCCL_IB_SL                 | 16",
        "NCCL_IB_TIMEOUT            | 0",
        "NCCL_IB_TIMEOUT            | 32",
        "NCCL_IB_RETRY_CNT          | 8",
        "NCCL_IB_QPS_PER_CONNECTION | 0",
        "NCCL_IB_QPS_PER_CONNECTION | 129",
        "NCCL_IB_DISABLE            | perhaps",
        "NCCL_IB_HCA                | mlx5_0:x",
        "NCCL_IB_HCA                | :1",
      })
  void settingsThatAreWrong(String name, String value) {
    InvalidArgumentException error =
        assertThrows(InvalidArgumentException.class, () -> support(name, value));
    assertTrue(error.getMessage().contains(name), error.getMessage());
    assertTrue(error.getMessage().contains(value), error.getMessage());
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "mlx5            | mlx5_0 | 1 | true",
        "mlx5_1          | mlx5_0 | 1 | false",
        "=mlx5           | mlx5_0 | 1 | false",
        "=mlx5_0         | mlx5_0 | 2 | true",
        "mlx5_0:2        | mlx5_0 | 1 | false",
        "mlx5_0:1,mlx4   | mlx4_3 | 2 | true",
        "^mlx5_0         | mlx5_0 | 1 | false",
        "^mlx5_0         | mlx5_1 | 1 | true",
        "^=mlx5_1        | mlx5_10 | 1 | true",
        "^mlx5_1         | mlx5_10 | 1 | false",
        "^mlx5_0:2       | mlx5_0 | 1 | true",
        "''              | any    | 1 | true",
      })
  void hcaFilter(String filter, String device, int port, boolean allowed) {
    assertEquals(allowed, HcaFilter.parse(filter).allows(device, port));
  }
}
