package org.nccl4j.it.perf.rank;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.os.ProcFile;

@Timeout(600)
final class RankThreadsTest {
  private static final int RANKS = 2;

  private static List<Integer> cores() {
    Path status = Path.of("/proc/thread-self/status");
    return CoreBinding.numbers(ProcFile.field(status, "Cpus_allowed_list").orElseThrow());
  }

  @Test
  void eachRankStaysOnACoreOfItsOwn() {
    assumeTrue(CoreBinding.hasCores(RankSpec.host(0, RANKS, 0)), "this process has one core");
    List<Integer> all = cores();
    CommunicatorConfig config = CommunicatorConfig.defaults().with("NCCL_SOCKET_IFNAME", "lo");
    try (RankThreads threads = new RankThreads(RANKS, 300)) {
      List<Communicator> ranks = threads.create(Collections.nCopies(RANKS, Devices.host()), config);
      List<List<Integer>> bound = threads.all(rank -> cores());
      assertTrue(bound.stream().allMatch(each -> each.size() == 1), bound.toString());
      assertEquals(RANKS, new HashSet<>(bound).size(), bound.toString());
      assertEquals(List.of(0, 1), ranks.stream().map(Communicator::rank).toList());
      assertEquals(all, cores());
      ranks.forEach(Communicator::close);
    }
  }

  @Test
  void theErrorOfARankIsThrown() {
    try (RankThreads threads = new RankThreads(RANKS, 300)) {
      InternalErrorException failed =
          assertThrows(InternalErrorException.class, () -> threads.all(rank -> 1 / rank));
      assertTrue(failed.problem().contains("by zero"), failed.problem());
    }
  }
}
