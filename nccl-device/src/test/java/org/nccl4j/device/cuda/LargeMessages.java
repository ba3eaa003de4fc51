package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.symmetric.WindowView;
import org.nccl4j.operation.Protocol;

/**
 * One group of large messages between all ranks: each has some to send to each other, to places in
 * its window or in plain memory that follow each other with gaps.
 */
final class LargeMessages {
  private static final int POISON = 0x5a;

  private final GpuRanks ranks;
  private final DirectRanks windows;
  private final List<DeviceMemory> plain;
  private final long most;
  private final Random random;
  private final List<List<P2pWork>> works = new ArrayList<>();
  private final int[] sent;
  private final int[] inWindow;
  private final int[] inPlain;
  private final List<Runnable> checks = new ArrayList<>();

  /** In buffers of so many bytes. */
  LargeMessages(
      GpuRanks ranks, DirectRanks windows, List<DeviceMemory> plain, long most, Random random) {
    this.ranks = ranks;
    this.windows = windows;
    this.plain = plain;
    this.most = most;
    this.random = random;
    this.sent = new int[ranks.n];
    this.inWindow = new int[ranks.n];
    this.inPlain = new int[ranks.n];
    for (int rank = 0; rank < ranks.n; rank++) {
      works.add(new ArrayList<>());
      windows.recv.get(rank).fill((byte) POISON);
      plain.get(rank).fill((byte) POISON);
    }
  }

  void exchange(int round) {
    int each = 1 + round % 3;
    for (int from = 0; from < ranks.n; from++) {
      for (int to = 0; to < ranks.n; to++) {
        for (int i = 0; from != to && i < each; i++) {
          add(from, to, round);
        }
      }
    }
    for (int rank = 0; rank < ranks.n; rank++) {
      var communicator = ranks.communicators.get(rank);
      communicator.launch(
          communicator.prepare(works.get(rank)), null, null, ranks.streams.get(rank));
    }
    ranks.synchronize();
    checks.forEach(Runnable::run);
  }

  private void add(int from, int to, int round) {
    int share = (int) most / (3 * Math.max(1, ranks.n - 1)) - 64;
    // Some below the least size that is offered, most above.
    int bytes = (1 << 18) + random.nextInt(share - (1 << 18));
    if (round % 4 == 0) {
      bytes &= ~15;
    }
    Protocol protocol = bytes % 3 == 0 ? Protocol.SIMPLE : Protocol.LL128;
    int gap = round % 4 == 0 ? 16 : 1 + random.nextInt(32);
    byte[] data = new byte[bytes];
    random.nextBytes(data);
    DeviceMemory source = windows.send.get(from);
    source.write(sent[from] + gap, ByteBuffer.wrap(data));
    works
        .get(from)
        .add(
            new P2pWork(
                P2pWork.Kind.SEND,
                to,
                source,
                sent[from] + gap,
                bytes,
                protocol,
                offer(bytes, null)));
    sent[from] += bytes + gap;
    boolean window = random.nextInt(4) != 0;
    int[] used = window ? inWindow : inPlain;
    DeviceMemory target = (window ? windows.recv : plain).get(to);
    int at = used[to] + gap;
    used[to] = at + bytes;
    works
        .get(to)
        .add(
            new P2pWork(
                P2pWork.Kind.RECV,
                from,
                target,
                at,
                bytes,
                protocol,
                offer(bytes, window ? windows.recvs.get(to) : null)));
    String name = "round %d: %d bytes from %d to %d".formatted(round, bytes, from, to);
    checks.add(() -> check(name, target, at, data));
  }

  /** Now and then one end does not know of offers. */
  private P2pWork.Offer offer(int bytes, WindowView window) {
    boolean unknown = bytes < P2pWork.Offer.LEAST_BYTES || random.nextInt(12) == 0;
    return unknown ? null : new P2pWork.Offer(window);
  }

  private static void check(String name, DeviceMemory target, int at, byte[] data) {
    ByteBuffer got = ByteBuffer.allocate(data.length + 1);
    target.read(at - 1, got);
    got.flip();
    assertEquals(POISON, got.get(), name + ": the byte before it");
    assertEquals(-1, got.slice().mismatch(ByteBuffer.wrap(data)), name);
  }
}
