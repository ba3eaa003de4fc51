package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.Communicator;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.RedOp;

/**
 * Kernels of GPUs that fill slots in memory of another rank, which sends them: random data in
 * poisoned buffers, of odd sizes.
 */
@Tag("gpu")
@Tag("two-gpus")
@Timeout(600)
class RailGpuTest {
  private static final int[] COUNTS = {1, 77, 4097, 70_001, 1_000_003};
  private static final long SEED = Long.getLong("nccl4j.seed", 1);

  @TempDir private Path folder;

  /** A rank's memory, allocated before any kernel runs: freeing memory waits for all kernels. */
  private record Rank(
      Communicator comm, DeviceMemory send, DeviceMemory recv, DeviceStream stream) {
    static Rank of(Communicator comm) {
      long bytes = 4L * RailGpus.RANKS * COUNTS[COUNTS.length - 1];
      return new Rank(
          comm,
          comm.device().allocate(bytes),
          comm.device().allocate(bytes),
          comm.device().createStream());
    }

    void close() {
      stream.close();
      send.close();
      recv.close();
      comm.close();
    }
  }

  private interface Body {
    void run(Rank rank, int count);
  }

  @Test
  void allSendByTheRailOfTheReceiver() throws Exception {
    System.out.println("seed " + SEED);
    List<Rank> ranks = new ArrayList<>();
    RailGpus.make(folder).forEach(comm -> ranks.add(Rank.of(comm)));
    String way = "through lo and the memory of rank %d beside it (PXN)";
    assertTrue(RailGpus.routes(ranks.get(0).comm).contains(way.formatted(1)));
    assertTrue(RailGpus.routes(ranks.get(3).comm).contains(way.formatted(2)));
    for (int count : COUNTS) {
      all(ranks, count, RailGpuTest::allToAll);
      all(ranks, count, RailGpuTest::allReduce);
    }
    ranks.forEach(Rank::close);
  }

  private static void all(List<Rank> ranks, int count, Body body) throws Exception {
    List<CompletableFuture<Void>> running = new ArrayList<>();
    for (Rank rank : ranks) {
      running.add(
          CompletableFuture.runAsync(
              () -> body.run(rank, count), task -> new Thread(task, "rank").start()));
    }
    for (CompletableFuture<Void> each : running) {
      each.get(300, TimeUnit.SECONDS);
    }
  }

  private static byte[] data(int from, int to, int count) {
    byte[] data = new byte[4 * count];
    new Random(SEED + 31L * from + to + count).nextBytes(data);
    return data;
  }

  private static void fill(Rank rank, int count) {
    for (int peer = 0; peer < RailGpus.RANKS; peer++) {
      byte[] data = data(rank.comm.rank(), peer, count);
      rank.send.write(4L * peer * count, ByteBuffer.wrap(data));
    }
    rank.recv.fill((byte) 0x77);
  }

  private static ByteBuffer received(Rank rank, long offset, int count) {
    ByteBuffer come = ByteBuffer.allocate(4 * count);
    rank.recv.read(offset, come);
    return come.flip();
  }

  private static void allToAll(Rank rank, int count) {
    fill(rank, count);
    rank.comm.allToAll(rank.send, rank.recv, count, DataType.INT32, rank.stream);
    rank.stream.synchronize();
    for (int peer = 0; peer < RailGpus.RANKS; peer++) {
      assertEquals(
          ByteBuffer.wrap(data(peer, rank.comm.rank(), count)),
          received(rank, 4L * peer * count, count),
          "%d elements from %d to %d".formatted(count, peer, rank.comm.rank()));
    }
  }

  private static void allReduce(Rank rank, int count) {
    fill(rank, count);
    rank.comm.allReduce(rank.send, rank.recv, count, DataType.INT32, RedOp.SUM, rank.stream);
    rank.stream.synchronize();
    int[] sums = new int[count];
    for (int peer = 0; peer < RailGpus.RANKS; peer++) {
      ByteBuffer part = ByteBuffer.wrap(data(peer, 0, count)).order(ByteOrder.nativeOrder());
      for (int i = 0; i < count; i++) {
        sums[i] += part.getInt(4 * i);
      }
    }
    ByteBuffer expected = ByteBuffer.allocate(4 * count).order(ByteOrder.nativeOrder());
    expected.asIntBuffer().put(sums);
    assertEquals(expected, received(rank, 0, count), count + " elements at " + rank.comm.rank());
  }
}
