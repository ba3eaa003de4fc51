package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.TimeoutException;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.kernel.P2pWork.Kind;
import org.nccl4j.operation.Protocol;

/** Sends and receives by copy engines on GPUs, alone and among those by kernels. */
@Tag("gpu")
class CopyEngineP2pGpuTest {
  private static final Duration DEADLINE = Duration.ofSeconds(5);
  private static final int POISON = 0x5a;

  /** Halves of 512 KiB, so that messages have many pieces. */
  private static final ConnectionLayout SMALL =
      new ConnectionLayout(64 << 10, 64 * 3968, 128 << 10);

  /** A group's works of all ranks, in buffers of their own, and what has to arrive. */
  private static final class Messages implements AutoCloseable {
    private final GpuRanks ranks;
    private final List<List<P2pWork>> works = new ArrayList<>();
    private final List<DeviceMemory> buffers = new ArrayList<>();
    private final List<DeviceMemory> targets = new ArrayList<>();
    private final List<DeviceMemory> sources = new ArrayList<>();
    private final List<byte[]> data = new ArrayList<>();

    Messages(GpuRanks ranks) {
      this.ranks = ranks;
      for (int rank = 0; rank < ranks.n; rank++) {
        works.add(new ArrayList<>());
      }
    }

    void add(Random random, int from, int to, int bytes, boolean copies) {
      int place = random.nextInt(40);
      DeviceMemory source = ranks.devices.get(from).allocate(bytes + 41);
      DeviceMemory target = ranks.devices.get(to).allocate(bytes + 42);
      Protocol protocol = copies || bytes % 2 == 0 ? Protocol.SIMPLE : Protocol.LL128;
      works.get(from).add(new P2pWork(Kind.SEND, to, source, place, bytes, protocol, null, copies));
      works
          .get(to)
          .add(new P2pWork(Kind.RECV, from, target, place + 1, bytes, protocol, null, copies));
      buffers.add(source);
      buffers.add(target);
      sources.add(source);
      targets.add(target);
      data.add(new byte[bytes]);
    }

    void fill(Random random) {
      for (int message = 0; message < data.size(); message++) {
        random.nextBytes(data.get(message));
        // the rest of the source must not arrive
        sources.get(message).fill((byte) ~POISON);
        sources.get(message).write(place(message) - 1, ByteBuffer.wrap(data.get(message)));
        targets.get(message).fill((byte) POISON);
      }
    }

    private long place(int message) {
      return works.stream()
          .flatMap(List::stream)
          .filter(work -> work.buffer() == targets.get(message))
          .findFirst()
          .orElseThrow()
          .offset();
    }

    void launch(int rank) {
      var communicator = ranks.communicators.get(rank);
      communicator.launch(
          communicator.prepare(works.get(rank)), null, null, ranks.streams.get(rank));
    }

    /** Sends new data, and sees that they have come. */
    void exchange(Random random, String name) {
      fill(random);
      for (int rank = 0; rank < ranks.n; rank++) {
        launch(rank);
      }
      ranks.synchronize();
      check(name);
    }

    void check(String name) {
      for (int message = 0; message < data.size(); message++) {
        byte[] expected = data.get(message);
        ByteBuffer got = ByteBuffer.allocate(expected.length + 2);
        targets.get(message).read(place(message) - 1, got);
        String which = "%s: message %d of %d bytes".formatted(name, message, expected.length);
        assertEquals(POISON, got.get(0), which + ", the byte before it");
        assertEquals(POISON, got.get(expected.length + 1), which + ", the byte after it");
        got.position(1).limit(expected.length + 1);
        assertEquals(-1, got.slice().mismatch(ByteBuffer.wrap(expected)), which);
      }
    }

    @Override
    public void close() {
      buffers.forEach(DeviceMemory::close);
    }
  }

  private static void addRandom(Messages messages, Random random, int n) {
    for (int from = 0; from < n; from++) {
      for (int to = 0; to < n; to++) {
        for (int left = from == to ? 0 : random.nextInt(4); left > 0; left--) {
          boolean copies = random.nextInt(3) != 0;
          messages.add(random, from, to, 1 + random.nextInt(1 << random.nextInt(23)), copies);
        }
      }
    }
  }

  @Test
  void randomGroupsArriveAmongKernels() {
    Random random = new Random(11);
    int n = CollectiveGpuTest.size();
    try (GpuRanks ranks = new GpuRanks(n, DEADLINE, SMALL)) {
      for (int round = 0; round < 60; round++) {
        try (Messages messages = new Messages(ranks)) {
          addRandom(messages, random, n);
          messages.exchange(random, "round " + round);
        }
      }
    }
  }

  @Test
  void largeMessagesOfAllToAllArrive() {
    Random random = new Random(12);
    int n = CollectiveGpuTest.size();
    try (GpuRanks ranks = new GpuRanks(n, DEADLINE);
        Messages messages = new Messages(ranks)) {
      for (int from = 0; from < n; from++) {
        for (int to = 0; to < n; to++) {
          if (from != to) {
            messages.add(random, from, to, (40 << 20) + 13 * from + to, true);
          }
        }
      }
      for (int round = 0; round < 2; round++) {
        messages.exchange(random, "round " + round);
      }
    }
  }

  /** Several groups in a graph that is replayed, and outside it in between. */
  @Test
  void graphsAndOthersAlternate() {
    Random random = new Random(13);
    int n = CollectiveGpuTest.size();
    try (GpuRanks ranks = new GpuRanks(n, DEADLINE, SMALL);
        Messages first = new Messages(ranks);
        Messages second = new Messages(ranks)) {
      addRandom(first, random, n);
      addRandom(second, random, n);
      List<CudaGraph> graphs = new ArrayList<>();
      for (int rank = 0; rank < n; rank++) {
        ranks.streams.get(rank).beginCapture();
        first.launch(rank);
        second.launch(rank);
        first.launch(rank);
        graphs.add(ranks.streams.get(rank).endCapture());
      }
      for (int replay = 0; replay < 6; replay++) {
        first.fill(random);
        second.fill(random);
        for (int rank = 0; rank < n; rank++) {
          graphs.get(rank).launch(ranks.streams.get(rank));
          if (replay % 2 == 1) {
            second.launch(rank);
          }
        }
        ranks.synchronize();
        first.check("replay " + replay);
        second.check("replay " + replay);
      }
      graphs.forEach(CudaGraph::close);
    }
  }

  @Test
  void aMissingRankIsATimeoutThatNamesIt() {
    for (Kind kind : Kind.values()) {
      try (GpuRanks ranks = new GpuRanks(2, Duration.ofMillis(300));
          DeviceMemory buffer = ranks.devices.get(0).allocate(4 << 20)) {
        var communicator = ranks.communicators.get(0);
        var work = new P2pWork(kind, 1, buffer, 0, 4 << 20, Protocol.SIMPLE, null, true);
        communicator.launch(communicator.prepare(List.of(work)), null, null, ranks.streams.get(0));
        var error = assertThrows(TimeoutException.class, () -> ranks.streams.get(0).synchronize());
        assertTrue(error.problem().contains("of rank 1"), error.problem());
      }
    }
  }
}
