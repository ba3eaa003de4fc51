package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/**
 * NVLS on several machines, which here are ranks of one process that say they are on different
 * ones, and are connected by sockets.
 */
@Timeout(600)
class NvlsTreeTest {
  private static final CommunicatorConfig TREE =
      CommunicatorConfig.defaults().with("NCCL_ALGO", "NVLSTree");

  @ParameterizedTest
  @CsvSource({
    "ab, 1001",
    "abc, 1",
    "aabb, 70001",
    "abab, 999",
    "abbccc, 20001",
    "aaabbbccc, 2003",
  })
  void everyOperationIsRight(String hosts, int count) throws Exception {
    try (Ranks ranks = Ranks.onHosts(hosts, TREE)) {
      Communicator comm = ranks.communicators.get(0);
      assertEquals(
          Algorithm.NVLS_TREE,
          comm.chosenAlgorithm(Operation.ALL_REDUCE, count, DataType.FLOAT32).algorithm());
      assertEquals("NET", comm.transports().get(hosts.indexOf('b')));
      OperationsTest.everyOperation(ranks, count);
    }
  }

  /** Sums, means, least and greatest one after the other, so that slots and steps wrap round. */
  @Test
  void manyInARow() throws Exception {
    int large = 30_001;
    try (Ranks ranks = Ranks.onHosts("aabbc", TREE.with("NCCL_NVLS_CHUNKSIZE", "2000"))) {
      ranks.run(
          (comm, stream) -> {
            try (DeviceMemory data = Ranks.floats(large, i -> i % 7);
                DeviceMemory few = Ranks.floats(3, i -> comm.rank())) {
              for (int round = 0; round < 5; round++) {
                comm.allReduce(few, few, 3, DataType.FLOAT32, RedOp.AVG, stream);
                comm.allReduce(data, data, large, DataType.FLOAT32, RedOp.AVG, stream);
              }
              stream.synchronize();
              assertEquals(2f, Ranks.floats(few)[2], 1e-5f);
              assertEquals((large - 1) % 7, Ranks.floats(data)[large - 1], 1e-4f);
            }
          });
    }
  }

  /** NVLS's other operations on one machine, and bytes, use other algorithms. */
  @Test
  void itHasAllReduceAlone() {
    try (Ranks ranks = Ranks.onHosts("aab", TREE)) {
      Communicator comm = ranks.communicators.get(1);
      for (Operation collective :
          List.of(Operation.ALL_GATHER, Operation.REDUCE_SCATTER, Operation.BROADCAST)) {
        Algorithm algorithm = comm.chosenAlgorithm(collective, 1000, DataType.FLOAT32).algorithm();
        assertTrue(!algorithm.isNvls(), collective + " by " + algorithm);
      }
      assertTrue(
          !comm.chosenAlgorithm(Operation.ALL_REDUCE, 1000, DataType.INT8).algorithm().isNvls());
      String table = comm.explain(Operation.ALL_REDUCE, 1000, DataType.FLOAT32);
      assertTrue(table.contains("NVLSTree Simple"), table);
      assertTrue(!table.contains("NVLS     Simple"), table);
    }
  }

  @Test
  void nobodyHasItUnasked() {
    try (Ranks ranks = Ranks.onHosts("aab", CommunicatorConfig.defaults())) {
      String table =
          ranks.communicators.get(0).explain(Operation.ALL_REDUCE, 1000, DataType.FLOAT32);
      assertTrue(!table.contains("NVLS"), table);
    }
  }
}
