package org.nccl4j.transport.net.ib;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.api.spi.NetRequest;
import org.nccl4j.device.DeviceMemory;

/** Messages arrive as they were sent, whatever their size, group and number of queue pairs. */
class IbTransferTest extends WithRoce {
  @ParameterizedTest
  @CsvSource({
    "0, 1, 0",
    "1, 1, 0",
    "4096, 1, 0",
    "1000003, 1, 0",
    "71000000, 1, 0",
    "0, 4, 0",
    "1000003, 4, 0",
    "0, 4, 1",
    "1, 4, 1",
    "127, 3, 1",
    "1000003, 4, 1",
    "71000000, 2, 1"
  })
  void oneMessage(int bytes, String pairs, String split) {
    try (IbLink link =
            new IbLink("NCCL_IB_QPS_PER_CONNECTION", pairs, "NCCL_IB_SPLIT_DATA_ON_QPS", split);
        DeviceMemory source = IbLink.pattern(bytes + 1, 1);
        DeviceMemory target = IbLink.memory(bytes + 16)) {
      NetMemory from = link.sender.register(source);
      NetMemory to = link.receiver.register(target);
      NetRequest receive = link.receive(to, 5, bytes + 3, 42);
      NetRequest send = link.send(from, 1, bytes, 42);
      int[] size = new int[1];
      IbLink.await(() -> receive.test(size));
      IbLink.await(() -> send.test(null));
      assertEquals(bytes, size[0]);
      assertArrayEquals(IbLink.read(source, 1, bytes), IbLink.read(target, 5, bytes));
      assertArrayEquals(new byte[5], IbLink.read(target, 0, 5), "nothing is written before it");
      assertArrayEquals(new byte[8], IbLink.read(target, 5 + bytes, 8), "nor after it");
    }
  }

  @ParameterizedTest
  @CsvSource({"1, 0", "3, 0", "3, 1"})
  void groupsOfReceivesTakeWhatComesInAnyOrder(String pairs, String split) {
    long seed = Long.getLong("nccl4j.seed", 1);
    Random random = new Random(seed);
    int n = 8;
    int each = 5000;
    try (IbLink link =
            new IbLink("NCCL_IB_QPS_PER_CONNECTION", pairs, "NCCL_IB_SPLIT_DATA_ON_QPS", split);
        DeviceMemory source = IbLink.pattern(n * each, 3);
        DeviceMemory target = IbLink.memory(n * each)) {
      NetMemory from = link.sender.register(source);
      NetMemory to = link.receiver.register(target);
      for (int round = 0; round < 200; round++) {
        NetMemory[] memories = new NetMemory[n];
        long[] offsets = new long[n];
        int[] bytes = new int[n];
        int[] tags = new int[n];
        List<Integer> order = new ArrayList<>();
        for (int i = 0; i < n; i++) {
          memories[i] = to;
          offsets[i] = (long) i * each;
          bytes[i] = each;
          tags[i] = 100 + i;
          order.add(i);
        }
        Collections.shuffle(order, random);
        NetRequest receive = link.receive(n, memories, offsets, bytes, tags);
        assertNotNull(receive);
        int[] sent = new int[n];
        List<NetRequest> sends = new ArrayList<>();
        for (int i : order) {
          sent[i] = random.nextInt(4) == 0 ? 0 : random.nextInt(each);
          sends.add(link.send(from, (long) i * each, sent[i], 100 + i));
        }
        int[] sizes = new int[n];
        IbLink.await(() -> receive.test(sizes));
        sends.forEach(send -> IbLink.await(() -> send.test(null)));
        assertArrayEquals(sent, sizes, "seed " + seed + " round " + round);
      }
      for (int i = 0; i < n; i++) {
        assertEquals(
            IbLink.read(source, (long) i * each, 1)[0], IbLink.read(target, (long) i * each, 1)[0]);
      }
    }
  }

  @ParameterizedTest
  @CsvSource({"1, 0", "3, 0", "3, 1"})
  void notesComeWithMessagesOfAnySize(String pairs, String split) {
    try (IbLink link =
            new IbLink("NCCL_IB_QPS_PER_CONNECTION", pairs, "NCCL_IB_SPLIT_DATA_ON_QPS", split);
        DeviceMemory source = IbLink.pattern(5000, 5);
        DeviceMemory target = IbLink.memory(5000)) {
      NetMemory from = link.sender.register(source);
      NetMemory to = link.receiver.register(target);
      int[] size = new int[1];
      for (int bytes : new int[] {0, 1, 510, 511, 512, 5000}) {
        for (int note : new int[] {0xffff, 0, 1, 0x8000}) {
          NetRequest receive = link.receive(to, 0, bytes, 1);
          NetRequest send = link.send(from, 0, bytes, 1, note);
          IbLink.await(() -> receive.test(size));
          assertEquals(bytes, size[0]);
          assertEquals(note, receive.note(), "of a message of " + bytes);
          IbLink.await(() -> send.test(null));
        }
      }
    }
  }

  @Test
  void tagsOfLaterReceivesDoNotWaitForEarlierOnes() {
    try (IbLink link = new IbLink();
        DeviceMemory source = IbLink.pattern(300, 9);
        DeviceMemory target = IbLink.memory(300)) {
      NetMemory from = link.sender.register(source);
      NetMemory to = link.receiver.register(target);
      NetRequest first = link.receive(to, 0, 100, 1);
      NetRequest second = link.receive(to, 100, 100, 2);
      NetRequest third = link.receive(to, 200, 100, 1);
      NetRequest two = link.send(from, 100, 100, 2);
      IbLink.await(() -> second.test(null));
      NetRequest one = link.send(from, 0, 100, 1);
      NetRequest three = link.send(from, 200, 100, 1);
      IbLink.await(() -> third.test(null));
      IbLink.await(() -> first.test(null));
      for (NetRequest send : List.of(one, two, three)) {
        IbLink.await(() -> send.test(null));
      }
      assertArrayEquals(IbLink.read(source, 0, 300), IbLink.read(target, 0, 300));
    }
  }

  @Test
  void sendsWaitForReceivesAndReceivesForRoom() {
    try (IbLink link = new IbLink();
        DeviceMemory source = IbLink.pattern(64, 1);
        DeviceMemory target = IbLink.memory(64)) {
      NetMemory from = link.sender.register(source);
      NetMemory to = link.receiver.register(target);
      assertNull(link.sender.isend(from, 0, 64, 7), "nothing is received yet");
      List<NetRequest> receives = new ArrayList<>();
      for (int i = 0; i < ClearToSend.SLOTS; i++) {
        receives.add(link.receive(to, 0, 64, 7));
      }
      assertNull(
          link.receiver.irecv(1, new NetMemory[] {to}, new long[1], new int[] {64}, new int[] {7}),
          "all slots are used");
      assertNull(link.sender.isend(from, 0, 64, 8), "another tag");
      for (int round = 0; round < 3 * ClearToSend.SLOTS; round++) {
        NetRequest send = link.send(from, 0, 64, 7);
        IbLink.await(() -> send.test(null));
        NetRequest oldest = receives.remove(0);
        IbLink.await(() -> oldest.test(null));
        receives.add(link.receive(to, 0, 64, 7));
      }
    }
  }
}
