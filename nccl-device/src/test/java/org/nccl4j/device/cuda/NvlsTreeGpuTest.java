package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * NVLS between machines, emulated, against random data, with poison around and in the outputs. The
 * machines are ranks of this process, whose heads are connected by the GPUs' memory; several ranks
 * share a GPU. The switch's multicast is not used.
 */
@Tag("gpu")
class NvlsTreeGpuTest {
  private static final Duration DEADLINE = Duration.ofSeconds(5);

  /** As many blocks of all ranks that share a GPU as it has room for at a time. */
  private static final int CHANNELS = 8;

  /** All it has of a type: odd counts, shifted and in place by chance, slots used many times. */
  @ParameterizedTest
  @EnumSource(DataType.class)
  void everyTypeAndOperator(DataType type) {
    long seed = 55 + type.ordinal();
    Random random = new Random(seed);
    int done = 0;
    for (String hosts : List.of("aabb", "abcd")) {
      int heads = hosts.equals("aabb") ? 2 : 1;
      try (GpuRanks ranks =
          new GpuRanks(hosts, DEADLINE, null, new NvlsLayout(heads, CHANNELS, 1024))) {
        for (RedOp op : RedOp.values()) {
          if (!Nvls.has(Operation.ALL_REDUCE, type, op)) {
            continue;
          }
          int[] counts = {1 + random.nextInt(40), random.nextInt(3000), random.nextInt(200_000)};
          for (int count : counts) {
            int channels = 1 + random.nextInt(count < 100 ? 2 : CHANNELS);
            int chunk = random.nextInt(3) == 0 ? 256 : Integer.MAX_VALUE;
            CollectiveGpuTest.check(ranks, work(type, op, count, channels, chunk), random, seed);
            done++;
          }
        }
      }
    }
    boolean order = Nvls.has(Operation.ALL_REDUCE, type, RedOp.MAX);
    assertEquals(2 * 3 * ((type.bytes() >= 2 ? 2 : 0) + (order ? 2 : 0)), done);
  }

  /** Slots as large as in use; ring and tree in turn with it, on the same connections. */
  @ParameterizedTest
  @CsvSource({"aabb, 1", "aabb, 2", "aaabb, 2", "aabbcc, 2", "abc, 1"})
  void largeFloatsInTurnWithOtherAlgorithms(String hosts, int heads) {
    Random random = new Random(hosts.hashCode());
    NvlsLayout layout = new NvlsLayout(heads, CHANNELS, 32 << 10);
    try (GpuRanks ranks = new GpuRanks(hosts, DEADLINE, null, layout)) {
      for (int channels : new int[] {1, 2, 7}) {
        for (int count : new int[] {100_003, 2_000_001}) {
          CollectiveWork work =
              work(DataType.FLOAT32, RedOp.SUM, count, channels, Integer.MAX_VALUE);
          CollectiveGpuTest.check(ranks, work, random, count);
          CollectiveGpuTest.check(ranks, by(Algorithm.RING, work), random, count);
          CollectiveGpuTest.check(ranks, work, random, count);
          CollectiveGpuTest.check(ranks, by(Algorithm.TREE, work), random, count);
        }
      }
    }
  }

  /** A rank that does not take part is named by the head that waits for it. */
  @Test
  void aMissingRankIsNamed() {
    NvlsLayout layout = new NvlsLayout(1, CHANNELS, 1024);
    try (GpuRanks ranks = new GpuRanks("aabb", Duration.ofSeconds(1), null, layout)) {
      CollectiveWork work = work(DataType.FLOAT32, RedOp.SUM, 100_000, 2, Integer.MAX_VALUE);
      List<DeviceMemory> buffers = new ArrayList<>();
      for (int rank = 1; rank < 4; rank++) {
        CudaKernelCommunicator communicator = ranks.communicators.get(rank);
        DeviceMemory buffer = ranks.devices.get(rank).allocate(400_000);
        buffers.add(buffer);
        communicator.launch(communicator.prepare(work), buffer, buffer, ranks.streams.get(rank));
      }
      for (int rank = 1; rank < 4; rank++) {
        CudaStream stream = ranks.streams.get(rank);
        String problem = assertThrows(NcclException.class, stream::synchronize).problem();
        // The head of the first machine is rank 1, that of the second rank 3.
        int awaited = rank == 1 ? 0 : rank == 2 ? 3 : 1;
        assertTrue(problem.contains("of rank " + awaited + " (channel"), rank + ": " + problem);
      }
      buffers.forEach(DeviceMemory::close);
    }
  }

  private static CollectiveWork work(DataType type, RedOp op, int count, int channels, int chunk) {
    return new CollectiveWork(
        Operation.ALL_REDUCE,
        Algorithm.NVLS_TREE,
        Protocol.SIMPLE,
        type,
        op,
        0,
        count,
        channels,
        chunk);
  }

  private static CollectiveWork by(Algorithm algorithm, CollectiveWork work) {
    return new CollectiveWork(
        work.operation(),
        algorithm,
        work.protocol(),
        work.type(),
        work.op(),
        work.root(),
        work.count(),
        work.nChannels(),
        work.chunkBytes());
  }
}
