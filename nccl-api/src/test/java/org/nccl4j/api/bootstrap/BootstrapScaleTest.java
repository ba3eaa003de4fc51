package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Many ranks of one process, over the loopback interface. The system property nccl4j.ranks says how
 * many; the figures of 4,096 are in docs/benchmarks/bootstrap.md.
 */
@Timeout(600)
class BootstrapScaleTest {
  @Test
  void manyRanksComeTogether() throws Exception {
    int n = Integer.getInteger("nccl4j.ranks", 128);
    BootstrapId id = Ranks.newId();
    long before = descriptors();
    long start = System.nanoTime();
    List<Ranks.Ended<Bootstrap>> joined =
        Ranks.run(
            n, rank -> TcpBootstrap.join(Ranks.request(id, n, rank, Duration.ofSeconds(300))));
    double formed = (System.nanoTime() - start) / 1e9;
    long during = descriptors();
    List<Bootstrap> ranks = joined.stream().map(Ranks.Ended::get).toList();
    start = System.nanoTime();
    List<Ranks.Ended<Integer>> sums =
        Ranks.run(
            n,
            rank -> {
              byte[] mine = {(byte) (rank & 1)};
              return ranks.get(rank).allGather(mine).stream().mapToInt(b -> b[0]).sum();
            });
    double gathered = (System.nanoTime() - start) / 1e9;
    sums.forEach(sum -> assertEquals(n / 2, sum.get()));
    System.out.printf(
        "%d ranks: formed in %.2f s, one all-gather %.2f s, %d descriptors%n",
        n, formed, gathered, during - before);
    Ranks.run(
        n,
        rank -> {
          ranks.get(rank).close();
          return null;
        });
  }

  private static long descriptors() throws IOException {
    try (Stream<Path> all = Files.list(Path.of("/proc/self/fd"))) {
      return all.count();
    }
  }
}
