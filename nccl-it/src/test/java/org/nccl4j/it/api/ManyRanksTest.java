package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.stream.IntStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;

/**
 * As many ranks of one process as its descriptors allow, each as if on a host of its own: all pairs
 * are connected by sockets before NCCL4J_INIT_TIMEOUT ends. This process has both ends, so it takes
 * n x n descriptors; the system property nccl4j.ranks says how many ranks.
 */
@Tag("slow")
@Timeout(300)
class ManyRanksTest {
  @Test
  void allPairsAreConnectedBySockets() throws Exception {
    int n = Integer.getInteger("nccl4j.ranks", 96);
    StringBuilder hosts = new StringBuilder();
    IntStream.range(0, n).forEach(rank -> hosts.append((char) (0x100 + rank)));
    CommunicatorConfig config = CommunicatorConfig.defaults().with("NCCL_SHM_DISABLE", "1");
    long start = System.nanoTime();
    try (Ranks ranks = Ranks.onHosts(hosts.toString(), config)) {
      System.out.printf(
          "%d ranks made in %.1f s, %d descriptors%n",
          n, (System.nanoTime() - start) / 1e9, new java.io.File("/proc/self/fd").list().length);
      ranks.run(
          (communicator, stream) -> {
            try (DeviceMemory data = Ranks.floats(1024, i -> communicator.rank())) {
              communicator.allReduce(data, data, 1024, DataType.FLOAT32, RedOp.SUM, stream);
              stream.synchronize();
              assertEquals(n * (n - 1) / 2, Ranks.floats(data)[1023]);
            }
          });
      System.out.printf(
          "all-reduce after %.1f s, %d descriptors%n",
          (System.nanoTime() - start) / 1e9, new java.io.File("/proc/self/fd").list().length);
    }
    System.out.printf("closed after %.1f s%n", (System.nanoTime() - start) / 1e9);
  }
}
