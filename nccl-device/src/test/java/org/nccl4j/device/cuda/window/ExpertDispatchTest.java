package org.nccl4j.device.cuda.window;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.DataType;
import org.nccl4j.device.cuda.HostKernels;
import org.nccl4j.device.kernel.ExpertSizes;

/**
 * The kernels of a dispatch to experts and of combine (expert_dispatch.cuh, expert_combine.cuh),
 * compiled for the host and run for all ranks by expert_ranks.cc, in memory as {@link ExpertLayout}
 * divides it. Needs nvcc's host compiler.
 */
@Timeout(600)
class ExpertDispatchTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);

  @TempDir static Path folder;
  private static HostKernels kernels;

  @BeforeAll
  static void compile() throws IOException {
    kernels =
        HostKernels.in(
                folder,
                "experts",
                "expert.cuh",
                "expert_combine.cuh",
                "expert_count.cuh",
                "expert_dispatch.cuh",
                "expert_fp8.cuh",
                "expert_layout.h",
                "expert_lines.cuh",
                "expert_sum.cuh",
                "block_scale.cuh",
                "launch.cuh",
                "layout.h",
                "types.h",
                "wait.cuh")
            .with("simt");
    kernels.compile("expert_ranks.cc", "expert_ranks", "-O1");
  }

  /** A run of some dispatches in a row, each with 0 to 3 combines behind it. */
  private record Run(
      ExpertSizes sizes, int blocks, int threads, int rounds, boolean wholeLines, int fault) {
    void check(long seed) throws Exception {
      ExpertLayout layout = new ExpertLayout(sizes, blocks);
      Map<String, Long> numbers = new LinkedHashMap<>();
      numbers.put("nRanks", (long) sizes.nRanks());
      numbers.put("maxTokens", (long) sizes.maxTokens());
      numbers.put("hidden", (long) sizes.hidden());
      numbers.put("topK", (long) sizes.topK());
      numbers.put("experts", (long) sizes.experts());
      numbers.put("fp8", sizes.fp8() ? 1L : 0);
      numbers.put("blocks", (long) blocks);
      numbers.put("threads", (long) threads);
      numbers.put("rounds", (long) rounds);
      numbers.put("wholeLines", wholeLines ? 1L : 0);
      numbers.put("pace", wholeLines ? 3L : 0); // the clock counts questions
      numbers.put("fault", (long) fault);
      numbers.put("seed", seed);
      numbers.put("windowBytes", layout.windowBytes);
      numbers.put("dispatchFlags", layout.dispatchFlags);
      numbers.put("combineFlags", layout.combineFlags);
      numbers.put("beginFlags", layout.beginFlags);
      numbers.put("outputs", layout.outputs);
      numbers.put("messages", layout.messages);
      numbers.put("messageBytes", layout.messageBytes);
      numbers.put("tokens", layout.tokens);
      numbers.put("stagedRow", layout.stagedRow);
      numbers.put("blockTokens", (long) layout.blockTokens);
      numbers.put("countsOfLine", (long) layout.countsOfLine);
      numbers.put("ownBytes", layout.ownBytes);
      numbers.put("state", layout.state);
      numbers.put("lists", layout.lists);
      numbers.put("listCapacity", layout.listCapacity);
      numbers.put("places", layout.places);
      numbers.put("keptExperts", layout.keptExperts);
      numbers.put("keptWeights", layout.keptWeights);
      numbers.put("keptCount", layout.keptCount);
      List<String> arguments = new ArrayList<>();
      numbers.forEach((name, number) -> arguments.add(name + "=" + number));
      assertEquals(Integer.toString(rounds), kernels.run("expert_ranks", arguments));
    }
  }

  private static int one(Random random, int... of) {
    return of[random.nextInt(of.length)];
  }

  private static Run draw(Random random, int fault) {
    boolean fp8 = random.nextBoolean();
    int n = one(random, 1, 2, 2, 3, 4, 5, 8);
    int tokens = one(random, 1, 2, 5, 17, 60, 130);
    ExpertSizes sizes =
        new ExpertSizes(
            n,
            tokens,
            fp8 ? one(random, 128, 256, 384, 1152) : one(random, 4, 8, 28, 64, 300),
            one(random, 1, 2, 3, 4, 8, 35),
            n * one(random, 1, 2, 7, 33, 64, 100, 512),
            DataType.FLOAT32,
            fp8);
    int blocks = 1 + random.nextInt(Math.min(6, tokens));
    int threads = 32 * (1 + random.nextInt(5));
    int rounds = sizes.entries() > 1500 ? 3 : 5;
    return new Run(sizes, blocks, threads, rounds, random.nextInt(3) > 0, fault);
  }

  /** Ranks with any numbers of tokens, in whole calls and in two parts, some ahead of others. */
  @Test
  void randomTokens() throws Exception {
    System.out.println("seed " + SEED);
    Random random = new Random(SEED);
    for (int run = 0; run < 25; run++) {
      draw(random, /* fault= */ 0).check(random.nextInt(1 << 30));
    }
  }

  /** A rank has so many entries that their numbers need 32 bits, and a block so many batches. */
  @Test
  void manyTokens() throws Exception {
    Random random = new Random(SEED);
    ExpertSizes sizes = new ExpertSizes(2, 2000, 4, 33, 6, DataType.FLOAT32, false);
    assertEquals(2, new ExpertLayout(sizes, 6).countsOfLine);
    new Run(sizes, 6, 160, 2, true, 0).check(random.nextInt(1 << 30));
  }

  /** The last dispatch of the first rank names one: that is reported, and no rank takes it. */
  @Test
  void anExpertThatDoesNotExist() throws Exception {
    Random random = new Random(SEED);
    for (int run = 0; run < 6; run++) {
      draw(random, /* fault= */ 1).check(random.nextInt(1 << 30));
    }
  }

  /** A graph may replay a dispatch of more tokens than the last one that the host has called. */
  @Test
  void aResultWithTooFewRows() throws Exception {
    Random random = new Random(SEED);
    for (int run = 0; run < 6; run++) {
      draw(random, /* fault= */ 2).check(random.nextInt(1 << 30));
    }
  }
}
