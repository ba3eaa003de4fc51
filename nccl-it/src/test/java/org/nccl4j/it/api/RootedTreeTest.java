package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/** Broadcast and reduce along the double binary tree, with every rank as the root. */
@Timeout(600)
class RootedTreeTest {
  private static final CommunicatorConfig TREE =
      CommunicatorConfig.defaults().with("NCCL_ALGO", "Tree");

  private static Algorithm chosen(Ranks ranks, Operation operation, long count) {
    return ranks
        .communicators
        .get(0)
        .chosenAlgorithm(operation, count, DataType.FLOAT32)
        .algorithm();
  }

  /** A letter is a host. Large counts take several chunks of both trees. */
  @ParameterizedTest
  @CsvSource({
    "AB, 100001",
    "AAB, 1",
    "AABB, 70001",
    "ABABA, 777",
    "AAABBB, 50001",
    "AABBCC, 300",
    "AABBCCD, 33333",
    "AAAABBBB, 5",
    "AABCBDDAC, 20011"
  })
  void everyRootOnSeveralHosts(String hosts, int count) throws Exception {
    try (Ranks ranks = Ranks.onHosts(hosts, TREE)) {
      everyRoot(ranks, count);
    }
  }

  /** On one host the tree is taken where it is named. */
  @ParameterizedTest
  @CsvSource({"2, 1", "3, 100001", "7, 20011"})
  void everyRootOnOneHost(int n, int count) throws Exception {
    try (Ranks ranks = new Ranks(n, TREE)) {
      everyRoot(ranks, count);
    }
  }

  private static void everyRoot(Ranks ranks, int count) throws Exception {
    int n = ranks.communicators.size();
    for (Operation operation : List.of(Operation.BROADCAST, Operation.REDUCE)) {
      assertEquals(Algorithm.TREE, chosen(ranks, operation, count));
    }
    ranks.run(
        (comm, stream) -> {
          int rank = comm.rank();
          try (DeviceMemory in = Ranks.floats(count, i -> rank * 10 + i % 7);
              DeviceMemory out = Ranks.floats(count, i -> -1)) {
            for (int root = 0; root < n; root++) {
              comm.broadcast(in, out, count, DataType.FLOAT32, root, stream);
              stream.synchronize();
              int from = root * 10;
              Ranks.assertFloats(i -> from + i % 7, Ranks.floats(out), "root " + root);
              comm.reduce(in, out, count, DataType.FLOAT32, RedOp.SUM, root, stream);
              stream.synchronize();
              float sum = 10f * n * (n - 1) / 2;
              Ranks.assertFloats(
                  rank == root ? i -> sum + n * (i % 7) : i -> from + i % 7,
                  Ranks.floats(out),
                  "root " + root);
            }
            // In place: the last root's data go to all, and all sums to the first rank.
            comm.broadcast(in, in, count, DataType.FLOAT32, n - 1, stream);
            comm.reduce(in, in, count, DataType.FLOAT32, RedOp.MAX, 0, stream);
            stream.synchronize();
            assertEquals((n - 1) * 10 + (count - 1) % 7, Ranks.floats(in)[count - 1]);
          }
        });
  }

  /** Hosts with several ranks choose it for what fits a message; one host never does. */
  @Test
  void itIsChosenOnSeveralHostsAlone() throws Exception {
    try (Ranks ranks = Ranks.onHosts("AABBCCDD", CommunicatorConfig.defaults())) {
      assertEquals(Algorithm.TREE, chosen(ranks, Operation.BROADCAST, 1000));
      assertEquals(Algorithm.TREE, chosen(ranks, Operation.REDUCE, 1000));
    }
    try (Ranks ranks = new Ranks(8)) {
      assertTrue(chosen(ranks, Operation.BROADCAST, 1000) != Algorithm.TREE);
      String table =
          ranks.communicators.get(0).explain(Operation.BROADCAST, 1000, DataType.FLOAT32);
      assertTrue(table.contains("used only if NCCL_ALGO names it"), table);
    }
  }
}
