package org.nccl4j.device.cuda.plan;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.cuda.HostKernels;

/**
 * The schedule of the kernels of parallel aggregated trees (pat.cuh), compiled for the host and run
 * for all ranks by pat_ranks.cc. Needs nvcc's host compiler.
 */
@Timeout(600)
class PatScheduleTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);

  @TempDir static Path folder;
  private static HostKernels kernels;

  @BeforeAll
  static void compile() throws IOException {
    kernels = HostKernels.in(folder, "pat", "pat.cuh", "step.cuh", "share.cuh", "layout.h");
    kernels.compile("pat_ranks.cc", "gather", "-O2", "-DFAMILY_COPY");
    kernels.compile("pat_ranks.cc", "reduce", "-O2", "-DFAMILY_REDUCE");
  }

  private static String run(String program, int n, int channels, long part, int slice, Random seeds)
      throws Exception {
    String inPlace = Integer.toString(seeds.nextInt(2));
    return kernels.run(
        program,
        List.of(
            Integer.toString(n),
            Integer.toString(channels),
            Long.toString(part),
            Integer.toString(slice),
            inPlace,
            Long.toString(Math.abs(seeds.nextLong() / 2))));
  }

  /** Right results for all numbers of ranks, in any order of steps, whatever the sizes. */
  @Test
  void everyNumberOfRanks() throws Exception {
    System.out.println("seed " + SEED);
    Random random = new Random(SEED);
    for (int n = 2; n <= 128; n += n < 64 ? 1 : 11) {
      ConnectionLayout layout = ConnectionSizes.layout(n);
      int whole = layout.simpleSlotBytes() / ConnectionLayout.CHANNELS;
      assertTrue(ConnectionSizes.patPiece(layout, n) >= 16, "a slot has room for each tree");
      int least = ConnectionSizes.leastPatSlice(n);
      int slice = random.nextBoolean() ? whole : least;
      int channels = 1 + random.nextInt(4);
      long elements = 1 + random.nextInt(slice / 8 * 16 / n);
      run("gather", n, channels, 8 * elements - random.nextInt(8), slice, random);
      run("reduce", n, channels, 8 * elements, slice, random);
    }
  }

  /** With more distances than slots, as ranks of several hosts have, whose slots are larger. */
  @Test
  void moreDistancesThanSlots() throws Exception {
    Random random = new Random(SEED);
    int n = 260;
    int slice = ConnectionSizes.layout(n / 8).simpleSlotBytes() / ConnectionLayout.CHANNELS;
    run("gather", n, 1, 130, slice, random);
    run("reduce", n, 1, 160, slice, random);
  }

  /** The most ranks that slots of late connections have room for, eight a host. */
  @Test
  void piecesOf16BytesOfManyRanks() throws Exception {
    Random random = new Random(SEED);
    int n = 1024;
    run("gather", n, 1, 16, ConnectionSizes.leastPatSlice(n), random);
    run("reduce", n, 1, 16, ConnectionSizes.leastPatSlice(n), random);
  }

  /** One message after the other: a logarithm of the ranks. */
  @Test
  void aSmallPartTakesALogarithmOfTheRanks() throws Exception {
    Random random = new Random(SEED);
    for (int n : new int[] {2, 3, 4, 5, 8, 9, 16, 33, 64, 70}) {
      int levels = Integer.SIZE - Integer.numberOfLeadingZeros(n - 1);
      for (String program : List.of("gather", "reduce")) {
        int longest = Integer.parseInt(run(program, n, 1, 8, 4096, random));
        assertTrue(longest <= levels, "%s of %d ranks: %d".formatted(program, n, longest));
      }
    }
  }
}
