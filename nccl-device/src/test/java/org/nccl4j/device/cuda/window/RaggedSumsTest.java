package org.nccl4j.device.cuda.window;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.cuda.HostKernels;

/**
 * The kernel that combines the copies of a ragged reduce-scatter (ragged_sum.cuh), compiled for the
 * host by ragged_sums.cc. Needs nvcc's host compiler.
 */
@Timeout(600)
class RaggedSumsTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);

  @TempDir Path folder;

  @Test
  void copiesOfAllNumbersAndAlignments() throws Exception {
    System.out.println("seed " + SEED);
    HostKernels kernels =
        HostKernels.in(
                folder, "direct", "ragged_sum.cuh", "ragged_layout.h", "launch.cuh", "layout.h")
            .with("simt")
            .with("ragged");
    kernels.compile("ragged_sums.cc", "ragged_sums", "-O1");
    assertEquals("500", kernels.run("ragged_sums", List.of(Long.toString(SEED))));
  }
}
