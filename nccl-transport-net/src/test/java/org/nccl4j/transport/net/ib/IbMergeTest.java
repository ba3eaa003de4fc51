package org.nccl4j.transport.net.ib;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetDevice;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.transport.net.ib.verbs.VerbsLayout;

/** Ports that are merged into one device: two of one libibverbs device, or of two. */
@Timeout(600)
class IbMergeTest extends WithFakeVerbs {
  private static final String[] DEFAULT = {};
  private static final String[] FORCED = {"NCCL_NET_FORCE_MERGE", "roce0,roce1"};

  /** Codes of speeds of a lane, in verbs.h: 50 and 14 Gbit/s; ports have 4 lanes. */
  private static final int FAST = 64;

  private static final int SLOW = 16;

  /** Two ports; returns the settings that merge them. */
  private String[] ports(boolean oneDevice, int firstSpeed, int secondSpeed) {
    FakeVerbs.addRoce(fake, "roce0", 5);
    fake.fake_set_speed(0, 1, firstSpeed);
    if (oneDevice) {
      fake.fake_set_ports(0, 2);
      fake.fake_set_speed(0, 2, secondSpeed);
      return DEFAULT;
    }
    FakeVerbs.addRoce(fake, "roce1", 5);
    fake.fake_set_speed(1, 1, secondSpeed);
    return FORCED;
  }

  private static String both(boolean oneDevice) {
    return oneDevice ? "roce0:1+roce0:2" : "roce0:1+roce1:1";
  }

  private void port(boolean oneDevice, int which, boolean down) {
    int device = oneDevice ? 0 : which;
    int port = oneDevice ? 1 + which : 1;
    fake.fake_set_down(device, port, down ? 1 : 0);
    int event = down ? VerbsLayout.EVENT_PORT_ERR : VerbsLayout.EVENT_PORT_ACTIVE;
    fake.fake_event(device, event, port);
  }

  private static void awaitMoves(IbLink link, int count) {
    IbLink.await(
        () -> {
          ((IbConnection) link.sender).poll();
          ((IbConnection) link.receiver).poll();
          return link.sender.failovers().count() >= count;
        });
  }

  private static void moveMany(IbLink link) {
    for (int bytes : new int[] {0, 1, 500, 16_384, 16_385, 70_000, 1 << 20}) {
      assertTrue(link.moves(bytes), bytes + " bytes");
    }
  }

  /** The bytes of the writes with immediate since some call, of each queue pair. */
  private Map<String, Long> bytesByPair(int since) {
    Map<String, Long> bytes = new TreeMap<>();
    fake.fake_calls()
        .substring(since)
        .lines()
        .filter(call -> call.startsWith("send op=1 "))
        .forEach(
            call ->
                bytes.merge(
                    call.substring(call.indexOf("qp=")),
                    Long.parseLong(
                        call.substring(call.indexOf("bytes=") + 6, call.indexOf(" flags"))),
                    Long::sum));
    return bytes;
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void theDeviceHasTheNamesOfItsPortsAndTheSumOfTheirSpeeds(boolean oneDevice) {
    String[] settings = ports(oneDevice, FAST, SLOW);
    try (Net net = new IbProvider().open(FakeVerbs.context(0, settings))) {
      assertEquals(1, net.devices().size());
      NetDevice device = net.devices().get(0);
      assertEquals(both(oneDevice), device.name());
      assertEquals(200_000 + 56_000, device.megabits());
    }
  }

  @ParameterizedTest
  @CsvSource({"NCCL_IB_MERGE_NICS, 0", "NCCL_NET_MERGE_LEVEL, LOC"})
  void portsStayDevicesOfTheirOwn(String name, String value) {
    ports(true, FAST, FAST);
    try (Net net = new IbProvider().open(FakeVerbs.context(0, name, value))) {
      assertEquals(
          List.of("roce0:1", "roce0:2"), net.devices().stream().map(NetDevice::name).toList());
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aLongMessageIsSplitBySpeed(boolean oneDevice) {
    String[] settings = ports(oneDevice, FAST, SLOW);
    try (IbLink link = new IbLink(settings)) {
      int before = fake.fake_calls().length();
      assertTrue(link.moves(1 << 20));
      // 200 of 256 Gbit/s, up to a multiple of 128 bytes.
      assertEquals(List.of(819_200L, 229_376L), List.copyOf(bytesByPair(before).values()));
    }
  }

  @Test
  void theSlowerEndOfAPathCounts() {
    ports(true, FAST, FAST);
    FakeVerbs.addRoce(fake, "roce1", 5);
    fake.fake_set_ports(1, 2);
    fake.fake_set_speed(1, 2, SLOW);
    try (IbLink link =
        new IbLink(new String[] {"NCCL_IB_HCA", "roce0"}, new String[] {"NCCL_IB_HCA", "roce1"})) {
      int before = fake.fake_calls().length();
      assertTrue(link.moves(1 << 20));
      assertEquals(List.of(819_200L, 229_376L), List.copyOf(bytesByPair(before).values()));
    }
  }

  @ParameterizedTest
  @CsvSource({"64, 64, 2", "64, 16, 1", "16, 64, 1"})
  void aShortMessageGoesOverOneOfTheFastestPorts(int first, int second, int used) {
    ports(true, first, second);
    try (IbLink link = new IbLink()) {
      int before = fake.fake_calls().length();
      for (int i = 0; i < 8; i++) {
        assertTrue(link.moves(1000));
      }
      Map<String, Long> bytes = bytesByPair(before);
      assertEquals(used, bytes.size());
      assertTrue(bytes.values().stream().allMatch(sum -> sum == 8000 / used), bytes.toString());
    }
  }

  @ParameterizedTest
  @CsvSource({"1, 0", "2, 0", "2, 1", "128, 0"})
  void severalQueuePairsAtEachPort(String pairs, String split) {
    ports(true, FAST, SLOW);
    try (IbLink link =
        new IbLink("NCCL_IB_QPS_PER_CONNECTION", pairs, "NCCL_IB_SPLIT_DATA_ON_QPS", split)) {
      for (int i = 0; i < 5; i++) {
        moveMany(link);
      }
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void thePortThatIsLeftCarriesAll(boolean oneDevice) {
    String[] merge = ports(oneDevice, FAST, SLOW);
    String[] settings =
        new String[] {
          "NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY",
          "1",
          "NCCL_NET_FORCE_MERGE",
          oneDevice ? "" : merge[1]
        };
    try (IbLink link = new IbLink(settings)) {
      moveMany(link);
      assertEquals(0, link.sender.failovers().count());
      int moves = 0;
      for (int lost : new int[] {0, 1, 0}) {
        port(oneDevice, lost, true);
        awaitMoves(link, ++moves);
        String left = oneDevice ? "roce0:" + (2 - lost) : "roce" + (1 - lost) + ":1";
        assertEquals(left + " to " + left, link.sender.failovers().path());
        moveMany(link);
        port(oneDevice, lost, false);
        awaitMoves(link, ++moves);
        String all = both(oneDevice);
        assertEquals(all + " to " + all, link.sender.failovers().path());
        moveMany(link);
      }
      assertEquals(moves, link.sender.failovers().count());
    }
  }

  /** The ends have two ports and one. */
  @ParameterizedTest
  @CsvSource({"'', roce0:1", "'', roce0:2", "roce0:1, ''", "roce0:2, ''"})
  void endsWithDifferentNumbersOfPorts(String from, String to) {
    ports(true, FAST, SLOW);
    try (IbLink link =
        new IbLink(
            new String[] {"NCCL_IB_HCA", from, "NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY", "1"},
            new String[] {
              "NCCL_IB_HCA", to, "NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY", "1"
            })) {
      moveMany(link);
      int lost = (from + to).equals("roce0:1") ? 1 : 0;
      port(true, lost, true);
      awaitMoves(link, 1);
      String left = "roce0:" + (2 - lost);
      assertEquals(left + " to " + left, link.sender.failovers().path());
      moveMany(link);
      port(true, lost, false);
      awaitMoves(link, 2);
      moveMany(link);
    }
  }

  @Test
  void aDeviceThatDiesLeavesItsPortToTheOther() {
    ports(false, FAST, FAST);
    try (IbLink link = new IbLink(FORCED)) {
      moveMany(link);
      fake.fake_event(1, VerbsLayout.EVENT_DEVICE_FATAL, 0);
      awaitMoves(link, 1);
      assertEquals("roce0:1 to roce0:1", link.sender.failovers().path());
      moveMany(link);
    }
  }

  @Test
  void whatPassesOnePortAndNotTheOtherIsRetransmissions() {
    String[] settings = ports(false, FAST, FAST);
    for (int after = 0; after < 8; after++) {
      for (int arrives = 0; arrives < 3; arrives++) {
        try (IbLink link = new IbLink(settings)) {
          fake.fake_break(after, arrives);
          for (int i = 0; i < 3; i++) {
            assertTrue(link.moves(70_000), after + " " + arrives);
          }
          IbLink.await(() -> fake.fake_broke() == 1 || link.moves(100));
        }
      }
    }
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aDmaBufIsUsedByThePortThatIsLeft(boolean oneDevice) {
    String[] settings = ports(oneDevice, FAST, FAST);
    int bytes = 100_000;
    try (IbLink link = new IbLink(settings);
        GpuMemory gpu = new GpuMemory(IbLink.memory(bytes));
        DeviceMemory source = IbLink.pattern(bytes, 2)) {
      NetMemory in = link.receiver.registerDmaBuf(gpu, 1, 4096);
      NetMemory out = link.sender.register(source);
      for (int moves = 0; moves < 2; moves++) {
        source.write(0, ByteBuffer.wrap(IbLink.patternBytes(bytes, moves)));
        NetRequest receive = link.receive(in, 0, bytes, 1);
        NetRequest send = link.send(out, 0, bytes, 1);
        IbLink.await(() -> receive.test(null));
        IbLink.await(() -> send.test(null));
        assertArrayEquals(IbLink.patternBytes(bytes, moves), IbLink.read(gpu, 0, bytes));
        port(oneDevice, 0, true);
        awaitMoves(link, 1);
      }
    }
  }

  @Test
  void everyPortFlushesAGpu() {
    String[] settings = ports(false, FAST, FAST);
    try (IbLink link = new IbLink(settings);
        GpuMemory gpu = new GpuMemory(IbLink.memory(100_000));
        DeviceMemory source = IbLink.pattern(100_000, 2)) {
      NetMemory in = link.receiver.registerDmaBuf(gpu, 1, 4096);
      NetMemory out = link.sender.register(source);
      NetRequest receive = link.receive(in, 0, 100_000, 1);
      NetRequest send = link.send(out, 0, 100_000, 1);
      IbLink.await(() -> receive.test(null));
      IbLink.await(() -> send.test(null));
      NetRequest flush =
          link.receiver.iflush(1, new NetMemory[] {in}, new long[] {0}, new int[] {100_000});
      IbLink.await(() -> flush.test(null));
      long reads = fake.fake_calls().lines().filter(call -> call.startsWith("send op=4 ")).count();
      assertEquals(2, reads);
      assertArrayEquals(IbLink.patternBytes(100_000, 2), IbLink.read(gpu, 0, 100_000));
    }
  }
}
