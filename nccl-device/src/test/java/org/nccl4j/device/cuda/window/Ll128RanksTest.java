package org.nccl4j.device.cuda.window;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.cuda.HostKernels;

/**
 * The kernel of operations in lines of LL128 (direct_ll128.cuh), compiled for the host and run for
 * all ranks by ll128_ranks.cc. Needs nvcc's host compiler.
 */
@Timeout(600)
class Ll128RanksTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);

  @TempDir static Path folder;
  private static HostKernels kernels;

  @BeforeAll
  static void compile() throws IOException {
    kernels =
        HostKernels.in(
                folder,
                "ll128",
                "direct.cuh",
                "direct_ll.cuh",
                "direct_ll128.cuh",
                "direct_layout.h",
                "launch.cuh",
                "layout.h",
                "wait.cuh")
            .with("direct")
            .with("simt");
    kernels.compile("ll128_ranks.cc", "ll128_ranks", "-O1");
  }

  /** All operations of any number of bytes, in place or not, by any blocks of each rank. */
  @ParameterizedTest
  @ValueSource(ints = {1, 2, 3, 5})
  void ranksMoveGroupsByDifferentBlocks(int n) throws Exception {
    List<String> arguments = List.of(Integer.toString(n), "40", Long.toString(SEED + n));
    assertEquals("40 operations", kernels.run("ll128_ranks", arguments), "seed " + SEED);
  }
}
