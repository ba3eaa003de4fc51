package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.cuda.HostKernels;

/**
 * The kernel of small sends and receives (p2p_small.cuh), compiled for the host and run for all
 * ranks by small_ranks.cc. Needs nvcc's host compiler.
 */
@Timeout(600)
class SmallRanksTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);

  @TempDir static Path folder;
  private static HostKernels kernels;

  @BeforeAll
  static void compile() throws IOException {
    kernels =
        HostKernels.in(
                folder,
                "small",
                "p2p_small.cuh",
                "launch.cuh",
                "share.cuh",
                "step.cuh",
                "users.cuh",
                "layout.h",
                "wait.cuh")
            .with("direct")
            .with("simt");
    kernels.compile("small_ranks.cc", "small_ranks", "-O1");
    kernels.compile("group_of_block.cc", "group_of_block", "-O1");
  }

  /** Also in tables of thousands of ranks. */
  @Test
  void aBlockFindsItsGroup() throws Exception {
    assertEquals("all found", kernels.run("group_of_block", List.of(Long.toString(SEED))));
  }

  /** Some messages a kernel, of some steps each; a rank may be some kernels ahead of another. */
  @ParameterizedTest
  @ValueSource(ints = {2, 3, 4})
  void messagesArriveAndFewStepsStayUntold(int n) throws Exception {
    List<String> arguments = List.of(Integer.toString(n), "120", Long.toString(SEED + n));
    String said = kernels.run("small_ranks", arguments);
    assertTrue(said.matches("[1-9][0-9]+ messages"), said + ", seed " + SEED);
  }
}
