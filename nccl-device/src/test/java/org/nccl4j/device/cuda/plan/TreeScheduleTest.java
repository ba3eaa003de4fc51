package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.cuda.HostKernels;
import org.nccl4j.operation.Operation;

/**
 * The schedule of the kernels of trees (tree.cuh), compiled for the host and run for all ranks by
 * tree_ranks.cc. Needs nvcc's host compiler.
 */
@Timeout(600)
class TreeScheduleTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);

  @TempDir static Path folder;
  private static HostKernels kernels;

  @BeforeAll
  static void compile() throws IOException {
    kernels = HostKernels.in(folder, "pat", "tree.cuh", "step.cuh", "share.cuh", "layout.h");
    kernels.compile("tree_ranks.cc", "copy", "-O2", "-DFAMILY_COPY");
    kernels.compile("tree_ranks.cc", "reduce", "-O2");
  }

  private static int run(
      Operation operation, int n, int channels, long bytes, int root, Random draw)
      throws Exception {
    int slice = 128 << draw.nextInt(4);
    String longest =
        kernels.run(
            operation.reduces() ? "reduce" : "copy",
            List.of(
                Integer.toString(n),
                Integer.toString(channels),
                Long.toString(bytes),
                Integer.toString(slice),
                Integer.toString(operation.ordinal()),
                Integer.toString(root),
                Integer.toString(draw.nextInt(2)),
                Long.toString(Math.abs(draw.nextLong() / 2))));
    return Integer.parseInt(longest);
  }

  /** Right results for any trees and all roots, in any order of steps, whatever the sizes. */
  @Test
  void everyRoot() throws Exception {
    System.out.println("seed " + SEED);
    Random draw = new Random(SEED);
    for (int n : new int[] {2, 3, 4, 5, 6, 7, 8, 9, 40}) {
      for (int root = 0; root < n; root += n > 9 ? 13 : 1) {
        long elements = 1 + draw.nextInt(2000);
        int channels = 1 + draw.nextInt(4);
        run(Operation.BROADCAST, n, channels, 8 * elements - draw.nextInt(8), root, draw);
        run(Operation.REDUCE, n, channels, 8 * elements, root, draw);
        run(Operation.ALL_REDUCE, n, channels, 8 * elements, 0, draw);
      }
    }
  }

  /** Between two ranks a small broadcast or reduce is one message, and an all-reduce two. */
  @Test
  void aSmallOperationTakesOneMessageForEachStep() throws Exception {
    Random draw = new Random(SEED);
    assertEquals(1, run(Operation.BROADCAST, 2, 1, 8, 1, draw));
    assertEquals(1, run(Operation.REDUCE, 2, 1, 8, 1, draw));
    assertEquals(2, run(Operation.ALL_REDUCE, 2, 1, 8, 0, draw));
  }
}
