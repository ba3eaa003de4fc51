package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.DataType;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/**
 * All-to-alls by rails among ranks on GPUs that say they are on several hosts. Needs a GPU, which
 * all ranks share if there is no other.
 */
@Tag("gpu")
@Timeout(600)
class AllToAllByRailsGpuTest {
  private static final int PATIENCE_SECONDS = 300;

  /** Ranks that share a GPU copy only while no kernel waits: a copy could wait behind one. */
  @ParameterizedTest
  @ValueSource(strings = {"aabb", "aaabbb", "abab", "aabbb"})
  void everyByteComesToItsPlace(String hosts) throws Exception {
    CommunicatorConfig config = AllToAllByRailsTest.RAILS.with("NCCL_MULTI_RANK_GPU_ENABLE", "1");
    CyclicBarrier together = new CyclicBarrier(hosts.length());
    try (Ranks ranks = Ranks.onHosts(hosts, Devices.cuda().list(), config)) {
      ranks.run(
          (comm, stream) -> {
            for (int bytes : new int[] {1, 777, 70_001, 3, 1_300_021, 777, 0}) {
              assertEquals(
                  Algorithm.RAILS,
                  comm.chosenAlgorithm(Operation.ALL_TO_ALL, bytes, DataType.INT8).algorithm());
              try (var buffers = AllToAllByRailsTest.Buffers.of(comm, bytes)) {
                together.await(PATIENCE_SECONDS, TimeUnit.SECONDS);
                comm.allToAll(buffers.send(), buffers.recv(), bytes, DataType.INT8, stream);
                stream.synchronize();
                together.await(PATIENCE_SECONDS, TimeUnit.SECONDS);
                buffers.check(comm.rank());
              }
            }
          });
    }
  }
}
