package org.nccl4j.transport.net.ib;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.transport.net.ib.verbs.VerbsLayout;

/** Several queue pairs for a connection, and several devices at once. */
class IbQueuesTest extends WithFakeVerbs {
  /** The number of data writes of each queue pair, by the bytes in all of them. */
  private Map<String, Long> writesByPair() {
    return fake.fake_calls()
        .lines()
        .filter(call -> call.startsWith("send op=1 "))
        .collect(
            Collectors.groupingBy(
                call -> call.substring(call.indexOf("qp=")), Collectors.counting()));
  }

  @ParameterizedTest
  @CsvSource({"4, 2, 4", "1, 3, 3", "2, 2, 2"})
  void theGreaterNumberOfQueuePairsOfTheTwoEndsIsUsedInTurn(
      String fromPairs, String toPairs, int used) {
    FakeVerbs.addRoce(fake, "roce0", 5);
    try (IbLink link =
        new IbLink(
            new String[] {"NCCL_IB_QPS_PER_CONNECTION", fromPairs},
            new String[] {"NCCL_IB_QPS_PER_CONNECTION", toPairs})) {
      for (int i = 0; i < 12; i++) {
        assertTrue(link.moves(5000));
      }
      Map<String, Long> writes = writesByPair();
      assertEquals(used, writes.size(), writes.toString());
      assertTrue(writes.values().stream().allMatch(n -> n == 12 / used), writes.toString());
    }
  }

  @Test
  void aSplitMessageTakesAllQueuePairsAtOnceInMultiplesOf128Bytes() {
    FakeVerbs.addRoce(fake, "roce0", 5);
    try (IbLink link =
        new IbLink("NCCL_IB_QPS_PER_CONNECTION", "3", "NCCL_IB_SPLIT_DATA_ON_QPS", "1")) {
      assertTrue(link.moves(1000));
      assertEquals(3, writesByPair().size());
      List<String> writes =
          FakeVerbs.calls(fake, "send op=1 ").stream()
              .map(call -> call.substring(0, call.indexOf(" flags")))
              .toList();
      assertEquals(
          List.of("send op=1 bytes=384", "send op=1 bytes=384", "send op=1 bytes=232"), writes);
    }
  }

  /** Data that switches may route adaptively are a write before the one that ends the receive. */
  @ParameterizedTest
  @CsvSource({
    "true, , , 8192, false",
    "true, , , 8193, true",
    "true, 0, , 100000, false",
    "true, 1, 64, 65, true",
    "true, , 0, 0, false",
    "false, , , 100000, false",
    "false, -2, , 100000, false",
    "false, 1, , 100000, true",
    "false, 1, , 8192, false"
  })
  void largeDataAreRoutedAdaptively(
      boolean infiniBand, String adaptive, String threshold, int bytes, boolean apart) {
    if (infiniBand) {
      FakeVerbs.addInfiniBand(fake, "ib0", 1);
    } else {
      FakeVerbs.addRoce(fake, "roce0", 5);
    }
    List<String> settings = new ArrayList<>();
    if (adaptive != null) {
      settings.addAll(List.of("NCCL_IB_ADAPTIVE_ROUTING", adaptive));
    }
    if (threshold != null) {
      settings.addAll(List.of("NCCL_IB_AR_THRESHOLD", threshold));
    }
    try (IbLink link = new IbLink(settings.toArray(String[]::new))) {
      assertTrue(link.moves(bytes));
      List<String> data = FakeVerbs.calls(fake, "send op=0 bytes=%d flags=0 ".formatted(bytes));
      assertEquals(apart ? 1 : 0, data.size(), data.toString());
      String end = "send op=1 bytes=%d ".formatted(apart ? 0 : bytes);
      assertEquals(1, FakeVerbs.calls(fake, end).size(), fake.fake_calls());
      for (int round = 0; round < 200; round++) {
        assertTrue(link.moves(bytes));
      }
    }
  }

  /** Adapters round a queue's size up to a power of two, and its memory is locked. */
  @Test
  void aQueuePairHasAtMost512Sends() {
    FakeVerbs.addInfiniBand(fake, "ib0", 1);
    try (IbLink link = new IbLink()) {
      assertTrue(link.moves(1000));
      List<Integer> sizes =
          FakeVerbs.calls(fake, "qp sends=").stream()
              .map(call -> Integer.parseInt(call.substring("qp sends=".length())))
              .toList();
      assertTrue(sizes.size() > 0 && Collections.max(sizes) <= 512, sizes::toString);
    }
  }

  /** Both ends are in this process, so it has one of each as a rank has for as many pairs. */
  @Test
  void theDescriptorsOfConnectionsAreThoseOfTheirControlConnections() {
    FakeVerbs.addRoce(fake, "roce0", 5);
    int more = 5;
    try (IbLink link = new IbLink()) {
      assertTrue(link.moves(1000));
      long before = sockets();
      for (int i = 0; i < more; i++) {
        connect(link, 0, 0, new ArrayList<>(), new ArrayList<>());
      }
      IbLink.await(() -> sockets() - before == link.from.descriptors(more));
    }
  }

  private static long sockets() {
    String[] descriptors = new File("/proc/self/fd").list();
    return Stream.of(descriptors).filter(IbQueuesTest::isSocket).count();
  }

  private static boolean isSocket(String descriptor) {
    try {
      Path link = Path.of("/proc/self/fd", descriptor);
      return Files.readSymbolicLink(link).toString().startsWith("socket:");
    } catch (IOException e) {
      return false; // closed since
    }
  }

  /** Each queue pair's part ends by itself; a group's sizes are behind its last data. */
  @Test
  void partsOfAMessageAreRoutedAdaptively() {
    FakeVerbs.addInfiniBand(fake, "ib0", 1);
    try (IbLink link =
        new IbLink("NCCL_IB_QPS_PER_CONNECTION", "3", "NCCL_IB_SPLIT_DATA_ON_QPS", "1")) {
      assertTrue(link.moves(60_000));
      assertEquals(3, FakeVerbs.calls(fake, "send op=1 bytes=0 ").size(), fake.fake_calls());
      assertEquals(3, writesByPair().size());
      assertTrue(link.moves(20_000), "parts that are small enough");
      assertEquals(3, FakeVerbs.calls(fake, "send op=1 bytes=0 ").size(), fake.fake_calls());
    }
  }

  @Test
  void severalDevicesAtOnce() {
    int n = 3;
    for (int i = 0; i < n; i++) {
      FakeVerbs.addRoce(fake, "roce" + i, 5);
    }
    try (IbLink link = new IbLink();
        DeviceMemory source = IbLink.pattern(n * 70_000, 4);
        DeviceMemory target = IbLink.memory(n * 70_000)) {
      List<NetSender> senders = new ArrayList<>();
      List<NetReceiver> receivers = new ArrayList<>();
      for (int i = 0; i < n; i++) {
        connect(link, i, n - 1 - i, senders, receivers);
      }
      assertEquals(n, FakeVerbs.calls(fake, "open roce").size(), "each device is opened");
      List<NetRequest> requests = new ArrayList<>();
      for (int round = 0; round < 20; round++) {
        for (int i = 0; i < n; i++) {
          NetMemory in = receivers.get(i).register(target);
          requests.add(
              receivers
                  .get(i)
                  .irecv(
                      1,
                      new NetMemory[] {in},
                      new long[] {i * 70_000L},
                      new int[] {70_000},
                      new int[] {i}));
        }
        for (int i = 0; i < n; i++) {
          NetRequest[] sent = new NetRequest[1];
          NetSender sender = senders.get(i);
          NetMemory out = sender.register(source);
          int at = i;
          IbLink.await(
              () -> {
                sent[0] = sender.isend(out, at * 70_000L, 70_000, at);
                return sent[0] != null;
              });
          requests.add(sent[0]);
        }
        requests.forEach(request -> IbLink.await(() -> request.test(null)));
        requests.clear();
      }
      assertEquals(
          ByteBuffer.wrap(IbLink.read(source, 0, n * 70_000)),
          ByteBuffer.wrap(IbLink.read(target, 0, n * 70_000)));
    }
  }

  @Test
  void aDeviceThatDiesLeavesTheOthersAlone() {
    FakeVerbs.addRoce(fake, "roce0", 5);
    int second = FakeVerbs.addRoce(fake, "roce1", 5);
    try (IbLink healthy = new IbLink("NCCL_IB_HCA", "=roce0");
        IbLink dead = new IbLink("NCCL_IB_HCA", "=roce1");
        DeviceMemory memory = IbLink.memory(64)) {
      NetRequest waiting = dead.receive(dead.receiver.register(memory), 0, 64, 1);
      fake.fake_event(second, VerbsLayout.EVENT_DEVICE_FATAL, 0);
      SystemErrorException error =
          assertThrows(SystemErrorException.class, () -> IbLink.await(() -> waiting.test(null)));
      assertTrue(error.getMessage().contains("roce1"), error.getMessage());
      assertTrue(healthy.moves(1000));
    }
  }

  private static void connect(
      IbLink link,
      int fromDevice,
      int toDevice,
      List<NetSender> senders,
      List<NetReceiver> receivers) {
    try (NetListener listener = link.to.listen(toDevice)) {
      NetSender sender = link.from.connect(fromDevice, listener.handle());
      NetReceiver[] receiver = new NetReceiver[1];
      IbLink.await(
          () -> {
            boolean ready = sender.isConnected();
            receiver[0] = receiver[0] == null ? listener.accept() : receiver[0];
            return ready && receiver[0] != null;
          });
      senders.add(sender);
      receivers.add(receiver[0]);
    }
  }
}
