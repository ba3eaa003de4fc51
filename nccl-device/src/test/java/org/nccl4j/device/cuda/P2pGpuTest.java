package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Sends and receives, graphs, aborts and deadlines on GPUs. */
@Tag("gpu")
class P2pGpuTest {
  private static final Duration DEADLINE = Duration.ofSeconds(5);
  private static final long PATIENCE_NANOS = 10_000_000_000L;

  @Test
  void randomGroupsArrive() {
    Random random = new Random(5);
    int n = CollectiveGpuTest.size();
    try (GpuRanks ranks = new GpuRanks(n, DEADLINE)) {
      for (int round = 0; round < 60; round++) {
        List<int[]> messages = messages(random, n, round);
        exchange(ranks, messages, random);
      }
    }
  }

  /** Triples (from, to, bytes); some groups are too large for a kernel's arguments. */
  private static List<int[]> messages(Random random, int n, int round) {
    int most = round % 10 == 9 ? 200 : 12;
    List<int[]> messages = new ArrayList<>();
    for (int i = random.nextInt(most); i >= 0; i--) {
      int bytes = random.nextInt(1 << random.nextInt(22));
      messages.add(new int[] {random.nextInt(n), random.nextInt(n), bytes});
    }
    return messages;
  }

  private static void exchange(GpuRanks ranks, List<int[]> messages, Random random) {
    int n = ranks.n;
    List<List<P2pWork>> works = new ArrayList<>();
    for (int rank = 0; rank < n; rank++) {
      works.add(new ArrayList<>());
    }
    List<DeviceMemory> owners = new ArrayList<>();
    List<byte[]> data = new ArrayList<>();
    List<DeviceMemory> targets = new ArrayList<>();
    for (int[] message : messages) {
      byte[] bytes = new byte[message[2]];
      random.nextBytes(bytes);
      int shift = random.nextInt(20);
      DeviceMemory from = ranks.devices.get(message[0]).allocate(message[2] + 32);
      DeviceMemory to = ranks.devices.get(message[1]).allocate(message[2] + 32);
      from.write(shift, ByteBuffer.wrap(bytes));
      Protocol protocol = Protocol.values()[message[2] % Protocol.values().length];
      works
          .get(message[0])
          .add(new P2pWork(P2pWork.Kind.SEND, message[1], from, shift, bytes.length, protocol));
      works
          .get(message[1])
          .add(new P2pWork(P2pWork.Kind.RECV, message[0], to, 3, bytes.length, protocol));
      owners.add(from);
      owners.add(to);
      data.add(bytes);
      targets.add(to);
    }
    for (int rank = 0; rank < n; rank++) {
      var communicator = ranks.communicators.get(rank);
      communicator.launch(
          communicator.prepare(works.get(rank)), null, null, ranks.streams.get(rank));
    }
    ranks.synchronize();
    for (int i = 0; i < data.size(); i++) {
      ByteBuffer got = ByteBuffer.allocate(data.get(i).length);
      targets.get(i).read(3, got);
      assertEquals(-1, got.flip().mismatch(ByteBuffer.wrap(data.get(i))), "message " + i);
    }
    owners.forEach(DeviceMemory::close);
  }

  /** Each plan is discarded before its launch has ended; other plans get its table after that. */
  @Test
  void groupsOfEverOtherSizesTakeNoMoreMemory() {
    int works = 80; // more than a kernel's arguments hold
    int place = 1 << 10;
    try (GpuRanks ranks = new GpuRanks(2, DEADLINE)) {
      List<DeviceMemory> from = new ArrayList<>();
      List<DeviceMemory> to = new ArrayList<>();
      for (CudaDevice device : ranks.devices) {
        from.add(device.allocate((long) works * place));
        to.add(device.allocate((long) works * place));
      }
      long before = ranks.communicators.get(0).memoryBytes();
      for (int round = 0; round < 1000; round++) {
        byte value = (byte) round;
        int bytes = 1 + round % place;
        if (round % 100 == 0) {
          ranks.synchronize();
          from.forEach(memory -> memory.fill(value));
          to.forEach(memory -> memory.fill((byte) ~value));
        }
        for (int rank = 0; rank < 2; rank++) {
          launchAndDiscard(ranks, rank, from.get(rank), to.get(rank), works, place, bytes);
        }
        if (round % 100 == 0) {
          ranks.synchronize();
          assertFilled(to.get(1), works, place, bytes, value);
        }
      }
      ranks.synchronize();
      long held = ranks.communicators.get(0).memoryBytes() - before;
      assertTrue(held <= 1 << 20, held + " bytes for the 100 that are under way at most");
      from.forEach(DeviceMemory::close);
      to.forEach(DeviceMemory::close);
    }
  }

  private static void launchAndDiscard(
      GpuRanks ranks, int rank, DeviceMemory from, DeviceMemory to, int n, int place, int bytes) {
    List<P2pWork> works = new ArrayList<>();
    for (int work = 0; work < n; work++) {
      long at = (long) work * place;
      works.add(new P2pWork(P2pWork.Kind.SEND, 1 - rank, from, at, bytes, Protocol.LL));
      works.add(new P2pWork(P2pWork.Kind.RECV, 1 - rank, to, at, bytes, Protocol.LL));
    }
    var communicator = ranks.communicators.get(rank);
    var plan = communicator.prepare(works);
    communicator.launch(plan, null, null, ranks.streams.get(rank));
    plan.discard();
  }

  private static void assertFilled(DeviceMemory memory, int n, int place, int bytes, byte value) {
    ByteBuffer got = ByteBuffer.allocate(n * place);
    memory.read(0, got);
    for (int at = 0; at < n * place; at++) {
      byte expected = at % place < bytes ? value : (byte) ~value;
      assertEquals(expected, got.get(at), "byte " + at + " of " + bytes + " each");
    }
  }

  /**
   * Messages into windows and into other memory in turns, singly and several on the same channels,
   * of odd sizes and places, so that offers are taken, refused by the sender, and not made.
   */
  @Test
  void largeMessagesArriveInWindowsAndBesideThem() {
    exchange(CollectiveGpuTest.size(), 24 << 20, 40, new Random(7));
  }

  /** Up to 130 MB, so that channels claim units of most. */
  @Test
  void veryLargeMessagesArriveInWindowsAndBesideThem() {
    exchange(2, 400 << 20, 6, new Random(8));
  }

  private static void exchange(int n, long most, int rounds, Random random) {
    try (GpuRanks ranks = new GpuRanks(n, DEADLINE);
        DirectRanks windows = new DirectRanks(ranks, most)) {
      List<DeviceMemory> plain = new ArrayList<>();
      ranks.devices.forEach(device -> plain.add(device.allocate(most)));
      for (int round = 0; round < rounds; round++) {
        new LargeMessages(ranks, windows, plain, most, random).exchange(round);
      }
      plain.forEach(DeviceMemory::close);
    }
  }

  @Test
  void aLargeReceiveWithoutItsSenderIsATimeout() {
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofMillis(300));
        DirectRanks windows = new DirectRanks(ranks, 4 << 20)) {
      var communicator = ranks.communicators.get(0);
      P2pWork work =
          new P2pWork(
              P2pWork.Kind.RECV,
              1,
              windows.recv.get(0),
              0,
              4 << 20,
              Protocol.SIMPLE,
              new P2pWork.Offer(windows.recvs.get(0)));
      communicator.launch(communicator.prepare(List.of(work)), null, null, ranks.streams.get(0));
      var error = assertThrows(TimeoutException.class, () -> ranks.streams.get(0).synchronize());
      assertTrue(error.problem().contains("of rank 1"), error.problem());
    }
  }

  @Test
  void capturedCollectivesRunAtEveryReplay() {
    int n = CollectiveGpuTest.size();
    try (GpuRanks ranks = new GpuRanks(n, DEADLINE)) {
      List<CudaGraph> graphs = new ArrayList<>();
      List<DeviceMemory> buffers = new ArrayList<>();
      int count = 5000;
      for (int rank = 0; rank < n; rank++) {
        DeviceMemory buffer = ranks.devices.get(rank).allocate(4L * count);
        buffers.add(buffer);
        var communicator = ranks.communicators.get(rank);
        var plan = communicator.prepare(sum(Algorithm.ONE_SHOT, Protocol.LL, count));
        var other = communicator.prepare(sum(Algorithm.RING, Protocol.SIMPLE, count));
        CudaStream stream = ranks.streams.get(rank);
        stream.beginCapture();
        communicator.launch(plan, buffer, buffer, stream);
        communicator.launch(other, buffer, buffer, stream);
        graphs.add(stream.endCapture());
        ByteBuffer ones = ByteBuffer.allocate(4 * count).order(ByteOrder.nativeOrder());
        while (ones.hasRemaining()) {
          ones.putInt(1);
        }
        buffer.write(0, ones.flip());
      }
      int expected = 1;
      for (int replay = 0; replay < 5; replay++) {
        for (int rank = 0; rank < n; rank++) {
          graphs.get(rank).launch(ranks.streams.get(rank));
        }
        ranks.synchronize();
        expected *= n * n;
      }
      for (DeviceMemory buffer : buffers) {
        ByteBuffer got = ByteBuffer.allocate(4 * count).order(ByteOrder.nativeOrder());
        buffer.read(0, got);
        for (int i = 0; i < count; i++) {
          assertEquals(expected, got.getInt(4 * i));
        }
        buffer.close();
      }
      graphs.forEach(CudaGraph::close);
    }
  }

  @Test
  void aMissingRankIsATimeoutThatNamesIt() {
    for (Protocol protocol : Protocol.values()) {
      try (GpuRanks ranks = new GpuRanks(2, Duration.ofMillis(200))) {
        var communicator = ranks.communicators.get(0);
        DeviceMemory buffer = beginAlone(ranks, sum(Algorithm.RING, protocol, 1024));
        var error = assertThrows(TimeoutException.class, () -> ranks.streams.get(0).synchronize());
        assertTrue(error.problem().contains("of rank 1"), error.problem());
        assertThrows(
            TimeoutException.class, () -> communicator.prepare(sum(Algorithm.RING, protocol, 1)));
        buffer.close();
      }
    }
  }

  @Test
  void whomAKernelWaitsForIsKnownBeforeTheDeadline() {
    for (Protocol protocol : Protocol.values()) {
      try (GpuRanks ranks = new GpuRanks(2, Duration.ofMinutes(5))) {
        var communicator = ranks.communicators.get(0);
        assertEquals(-1, communicator.waitsFor());
        DeviceMemory buffer = beginAlone(ranks, sum(Algorithm.RING, protocol, 1024));
        long start = System.nanoTime();
        int awaited = communicator.waitsFor();
        while (awaited < 0 && System.nanoTime() - start < PATIENCE_NANOS) {
          awaited = communicator.waitsFor();
        }
        assertEquals(1, awaited, protocol.label());
        communicator.abort(new RemoteException("rank 1 is gone", "none"));
        assertThrows(
            RemoteException.class, () -> ranks.streams.get(0).synchronize(Duration.ofSeconds(10)));
        buffer.close();
      }
    }
  }

  @Test
  void abortEndsWhatWaits() {
    try (GpuRanks ranks = new GpuRanks(2, Duration.ofMinutes(5))) {
      var communicator = ranks.communicators.get(0);
      DeviceMemory buffer = beginAlone(ranks, sum(Algorithm.ONE_SHOT, Protocol.LL, 1024));
      communicator.abort(new RemoteException("rank 1 is gone", "none"));
      assertThrows(
          RemoteException.class, () -> ranks.streams.get(0).synchronize(Duration.ofSeconds(10)));
      buffer.close();
    }
  }

  /** Rank 0 begins something that the others do not; its buffer. */
  private static DeviceMemory beginAlone(GpuRanks ranks, CollectiveWork work) {
    DeviceMemory buffer = ranks.devices.get(0).allocate(4096);
    var communicator = ranks.communicators.get(0);
    communicator.launch(communicator.prepare(work), buffer, buffer, ranks.streams.get(0));
    return buffer;
  }

  private static CollectiveWork sum(Algorithm algorithm, Protocol protocol, int count) {
    return new CollectiveWork(
        Operation.ALL_REDUCE,
        algorithm,
        protocol,
        DataType.INT32,
        RedOp.SUM,
        0,
        count,
        4,
        Integer.MAX_VALUE);
  }
}
