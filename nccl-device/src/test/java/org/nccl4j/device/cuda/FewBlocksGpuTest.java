package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Operations of few blocks, each of which has more data in flight than those of many. Random data,
 * poisoned outputs, odd sizes. Needs GPUs; two for the kernels of two ranks.
 */
@Tag("gpu")
class FewBlocksGpuTest {
  private static final Duration DEADLINE = Duration.ofSeconds(5);
  private static final int MOST = 4 << 20;
  private static final int GUARD = 64;
  private static final byte POISON = (byte) 0xA5;

  /** A block loads 64 KiB of each rank at once: twice that, and some more. */
  private static final int BLOCK_BYTES = 150 << 10;

  private static final List<DirectGpuTest.Kind> DIRECT =
      List.of(
          new DirectGpuTest.Kind(Operation.REDUCE_SCATTER, Algorithm.DIRECT_ONE_SHOT),
          new DirectGpuTest.Kind(Operation.ALL_REDUCE, Algorithm.DIRECT_TWO_SHOT),
          new DirectGpuTest.Kind(Operation.REDUCE, Algorithm.DIRECT_ONE_SHOT));

  @ParameterizedTest
  @EnumSource(DataType.class)
  void reductionsBetweenWindows(DataType type) {
    Random random = new Random(31 + type.ordinal());
    try (GpuRanks ranks = new GpuRanks(2, DEADLINE);
        DirectRanks windows = new DirectRanks(ranks, MOST)) {
      for (DirectGpuTest.Kind kind : DIRECT) {
        int parts = kind.operation() == Operation.ALL_REDUCE ? ranks.n : 1;
        int count = parts * BLOCK_BYTES / type.bytes() + random.nextInt(99);
        for (RedOp op : RedOp.values()) {
          DirectGpuTest.check(ranks, windows, kind, type, op, count, random, 1, 0);
        }
        DirectGpuTest.check(ranks, windows, kind, type, RedOp.SUM, 2 * count + 1, random, 2, 0);
      }
    }
  }

  /** Through slots: steps that a block moves at once, several for each channel. */
  @Test
  void messages() {
    Random random = new Random(41);
    try (GpuRanks ranks = new GpuRanks(2, DEADLINE)) {
      for (int channels : new int[] {1, 2, 3}) {
        for (int bytes : new int[] {1 << 20, (1 << 20) + 12_345, 333_333, 65_536 * channels + 1}) {
          check(ranks, channels, bytes, 0, 0, random);
          check(ranks, channels, bytes, 16, 48, random);
          check(ranks, channels, bytes, random.nextInt(16), random.nextInt(16), random);
        }
      }
    }
  }

  /** Both ranks send each other a message, from an offset to another. */
  private static void check(
      GpuRanks ranks, int channels, int bytes, int sendShift, int recvShift, Random random) {
    List<ByteBuffer> data = new ArrayList<>();
    List<DeviceMemory> sends = new ArrayList<>();
    List<DeviceMemory> recvs = new ArrayList<>();
    for (int rank = 0; rank < 2; rank++) {
      byte[] all = new byte[bytes];
      random.nextBytes(all);
      data.add(ByteBuffer.wrap(all));
      sends.add(ranks.devices.get(rank).allocate(bytes + GUARD));
      recvs.add(ranks.devices.get(rank).allocate(bytes + 2 * GUARD));
      sends.get(rank).write(sendShift, ByteBuffer.wrap(all));
      recvs.get(rank).fill(POISON);
    }
    for (int rank = 0; rank < 2; rank++) {
      int other = 1 - rank;
      P2pWork send =
          new P2pWork(P2pWork.Kind.SEND, other, sends.get(rank), sendShift, bytes, Protocol.SIMPLE);
      P2pWork recv =
          new P2pWork(P2pWork.Kind.RECV, other, recvs.get(rank), recvShift, bytes, Protocol.SIMPLE);
      var communicator = ranks.communicators.get(rank);
      List<P2pWork> works = List.of(send.onAtMost(channels), recv.onAtMost(channels));
      communicator.launch(communicator.prepare(works), null, null, ranks.streams.get(rank));
    }
    ranks.synchronize();
    for (int rank = 0; rank < 2; rank++) {
      String what =
          "%d bytes on %d channels, from %d to %d, rank %d"
              .formatted(bytes, channels, sendShift, recvShift, rank);
      ByteBuffer got = DirectGpuTest.read(recvs.get(rank));
      assertEquals(-1, got.slice(recvShift, bytes).mismatch(data.get(1 - rank)), what);
      for (int at = 0; at < recvShift; at++) {
        assertEquals(POISON, got.get(at), what);
      }
      for (int at = recvShift + bytes; at < got.limit(); at++) {
        assertTrue(got.get(at) == POISON, what);
      }
    }
    sends.forEach(DeviceMemory::close);
    recvs.forEach(DeviceMemory::close);
  }
}
