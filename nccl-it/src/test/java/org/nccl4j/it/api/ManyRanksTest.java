package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.File;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.RedOp;

/**
 * Very many ranks of one process that sockets connect, created within NCCL4J_INIT_TIMEOUT. This
 * process has both ends of all connections: 8 descriptors a rank. The system property nccl4j.ranks
 * says how many ranks.
 */
@Tag("slow")
@Timeout(600)
class ManyRanksTest {
  private static final int RANKS = Integer.getInteger("nccl4j.ranks", 1024);

  private static final CommunicatorConfig SOCKETS =
      CommunicatorConfig.defaults().with("NCCL_SHM_DISABLE", "1");

  private final long begin = System.nanoTime();

  @Test
  void ranksOnHostsOfTheirOwnReduce() throws Exception {
    StringBuilder hosts = new StringBuilder();
    IntStream.range(0, RANKS).forEach(rank -> hosts.append((char) (0x100 + rank)));
    reduce(Ranks.onHosts(hosts.toString(), SOCKETS));
  }

  @Test
  void ranksOfOneHostReduce() throws Exception {
    reduce(
        new Ranks(RANKS, SOCKETS.with("NCCL_P2P_DISABLE", "1").with("NCCL_SOCKET_IFNAME", "lo")));
  }

  private void reduce(Ranks made) throws Exception {
    try (Ranks ranks = made) {
      tell("made");
      ranks.run(
          (communicator, stream) -> {
            try (DeviceMemory data = Ranks.floats(1024, i -> communicator.rank() + i)) {
              communicator.allReduce(data, data, 1024, DataType.FLOAT32, RedOp.SUM, stream);
              stream.synchronize();
              float[] sums = Ranks.floats(data);
              for (int i = 0; i < sums.length; i++) {
                assertEquals((float) (RANKS * (RANKS - 1) / 2 + RANKS * i), sums[i]);
              }
            }
          });
      tell("all-reduce done");
    }
    tell("closed");
  }

  private void tell(String what) {
    String[] descriptors = new File("/proc/self/fd").list();
    Runtime java = Runtime.getRuntime();
    System.out.printf(
        "%d ranks: %s after %.1f s, %d descriptors, %d MB of heap%n",
        RANKS,
        what,
        (System.nanoTime() - begin) / 1e9,
        descriptors == null ? -1 : descriptors.length,
        (java.totalMemory() - java.freeMemory()) >> 20);
  }
}
