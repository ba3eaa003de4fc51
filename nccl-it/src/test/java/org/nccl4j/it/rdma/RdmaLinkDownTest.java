package org.nccl4j.it.rdma;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Path;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Ports of Soft-RoCE whose links go down or silent, by seeds, in the middle of random operations,
 * and come back or do not. The system properties nccl4j.chaos.first and nccl4j.chaos.seeds say
 * which seeds, nccl4j.chaos.seconds after how long none begins any more.
 */
@Tag("rdma")
@Timeout(7200)
class RdmaLinkDownTest {
  /** To boot, and for the last seed. */
  private static final int MORE_SECONDS = 300;

  @TempDir private Path folder;

  @Test
  void anotherPortTakesOver() throws IOException, InterruptedException {
    long first = Long.getLong("nccl4j.chaos.first", 1);
    long seeds = Long.getLong("nccl4j.chaos.seeds", 10);
    int seconds = Integer.getInteger("nccl4j.chaos.seconds", 1200);
    Guest.Result result =
        new Guest(folder)
            .run(
                seconds + MORE_SECONDS,
                "cd %s; ".formatted(Path.of("").toAbsolutePath())
                    + Guest.main(RdmaLinks.class, first + " " + seeds + " " + seconds))
            .succeeded();
    System.out.println(result.output()); // for docs/benchmarks/rdma.md
    assertEquals(1, Guest.lines(result, "all right").size(), result.output());
  }
}
