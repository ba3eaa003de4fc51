package org.nccl4j.device.cuda.window;

import static org.junit.jupiter.api.Assertions.assertTrue;

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
 * The kernels of operations in lines, alone and of groups, compiled for the host and run for all
 * ranks by line_ranks.cc. Needs nvcc's host compiler.
 */
@Timeout(600)
class LineRanksTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);

  @TempDir static Path folder;
  private static HostKernels kernels;

  @BeforeAll
  static void compile() throws IOException {
    kernels =
        HostKernels.in(
                folder,
                "lines",
                "direct.cuh",
                "direct_ll.cuh",
                "direct_group.cuh",
                "direct_layout.h",
                "launch.cuh",
                "direct_group_layout.h",
                "layout.h")
            .with("direct");
    kernels.compile("line_ranks.cc", "line_ranks", "-O2", "-Xcompiler", "-pthread");
  }

  /** Right results, however each rank divides a group among kernels and these among blocks. */
  @ParameterizedTest
  @ValueSource(ints = {2, 3, 5})
  void ranksDivideGroupsInDifferentWays(int n) throws Exception {
    String output =
        kernels.run("line_ranks", List.of(Integer.toString(n), "30", Long.toString(SEED + n)));
    assertTrue(output.matches("\\d+ operations by \\d+ kernels"), output);
  }
}
