package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/**
 * Many ranks of one process, over the loopback interface. The system properties nccl4j.ranks and
 * nccl4j.roots say how many, nccl4j.piece how many bytes each gives to an all-gather; the figures
 * of 4,096 ranks are in docs/benchmarks/bootstrap.md.
 */
@Timeout(900)
class BootstrapScaleTest {
  private static final Duration LONG = Duration.ofSeconds(300);

  /** Descriptors that this JVM may open for itself meanwhile; less than one for each rank. */
  private static final int OTHERS = 72;

  @Test
  void manyRanksComeTogether() throws Exception {
    int n = Integer.getInteger("nccl4j.ranks", 128);
    int roots = Integer.getInteger("nccl4j.roots", 4);
    int piece = Integer.getInteger("nccl4j.piece", 1);
    long before = descriptors();
    List<BootstrapId> ids = Ranks.newIds(roots);
    long start = System.nanoTime();
    List<Ranks.Ended<Bootstrap>> joined =
        Ranks.run(n, rank -> TcpBootstrap.join(Ranks.request(ids, n, rank, LONG)));
    double formed = (System.nanoTime() - start) / 1e9;
    // Two ends of a connection to the root and of one to the next rank; guests have one more.
    long most = before + 4 * n + 2 * roots + OTHERS;
    long end = System.nanoTime() + LONG.toNanos();
    while (descriptors() > most && System.nanoTime() < end) {
      Thread.onSpinWait(); // sockets of what a rank tried besides may close later
    }
    long during = descriptors();
    List<Bootstrap> ranks = joined.stream().map(Ranks.Ended::get).toList();
    start = System.nanoTime();
    List<Ranks.Ended<Integer>> sums =
        Ranks.run(
            n,
            rank -> {
              byte[] mine = new byte[piece];
              mine[0] = (byte) (rank & 1);
              return ranks.get(rank).allGather(mine).stream().mapToInt(b -> b[0]).sum();
            });
    double gathered = (System.nanoTime() - start) / 1e9;
    sums.forEach(sum -> assertEquals(n / 2, sum.get()));
    start = System.nanoTime();
    Ranks.run(
        n,
        rank -> {
          ranks.get(rank).close();
          return null;
        });
    double closed = (System.nanoTime() - start) / 1e9;
    System.out.printf(
        "%d ranks, %d roots: formed in %.2f s, one all-gather of %d bytes %.2f s, closed in %.2f s,"
            + " %d descriptors%n",
        n, roots, formed, piece, gathered, closed, during - before);
    assertTrue(during <= most, during + " descriptors, " + before + " before");
  }

  private static long descriptors() throws IOException {
    try (Stream<Path> all = Files.list(Path.of("/proc/self/fd"))) {
      return all.count();
    }
  }
}
