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
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.nccl4j.device.cuda.HostKernels;
import org.nccl4j.device.kernel.ExpertKernels.Form;
import org.nccl4j.device.kernel.RaggedKernels.Sizes;

/**
 * The kernel of ragged exchanges (ragged.cuh), compiled for the host and run for all ranks by
 * ragged_ranks.cc, in memory as {@link RaggedLayout} divides it. Needs nvcc's host compiler.
 */
@Timeout(600)
class RaggedRanksTest {
  private static final long SEED = Long.getLong("nccl4j.seed", 1);

  @TempDir static Path folder;
  private static HostKernels kernels;

  @BeforeAll
  static void compile() throws IOException {
    kernels =
        HostKernels.in(
                folder,
                "ragged",
                "ragged.cuh",
                "ragged_counts.cuh",
                "ragged_lines.cuh",
                "ragged_layout.h",
                "launch.cuh",
                "layout.h",
                "unaligned.cuh",
                "wait.cuh")
            .with("simt");
    kernels.compile("ragged_ranks.cc", "ragged_ranks", "-O1");
  }

  /** Errors in the last call, as ragged_ranks.cc numbers them. */
  private enum Fault {
    NONE,
    INVALID_COUNT,
    SENDS_MORE,
    RECEIVES_MORE,
    OTHER_CALL,
    COUNTS_DIFFER
  }

  /**
   * A run of some calls in a row.
   *
   * @param lineBytes of elements that go in lines
   */
  private record Run(Sizes sizes, Form form, int threads, int calls, long lineBytes, Fault fault) {
    void check(long seed) throws Exception {
      RaggedLayout layout = RaggedLayout.of(sizes, form);
      Map<String, Long> numbers = new LinkedHashMap<>();
      numbers.put("nRanks", (long) sizes.nRanks());
      numbers.put("elementBytes", (long) sizes.elementBytes());
      numbers.put("maxCount", sizes.maxCount());
      numbers.put("maxReceived", sizes.maxReceived());
      numbers.put("wide", sizes.wide() ? 1L : 0);
      numbers.put("blocks", (long) form.blocks());
      numbers.put("threads", (long) threads);
      numbers.put("calls", (long) calls);
      numbers.put("fault", (long) fault.ordinal());
      numbers.put("seed", seed);
      numbers.put("counted", layout.counted());
      numbers.put("flags", layout.flags());
      numbers.put("lines", layout.lines());
      numbers.put("lineBytes", lineBytes);
      numbers.put("windowBytes", layout.bytes());
      List<String> arguments = new ArrayList<>();
      numbers.forEach((name, number) -> arguments.add(name + "=" + number));
      assertEquals(Integer.toString(calls), kernels.run("ragged_ranks", arguments));
    }
  }

  private static int one(Random random, int... of) {
    return of[random.nextInt(of.length)];
  }

  /** All elements in lines, none, or those of small counts. */
  private static Run draw(Random random, int n, Fault fault) {
    int most = one(random, 1, 2, 7, 30, n < 8 ? 400 : 50);
    Sizes sizes =
        new Sizes(
            n,
            one(random, 1, 2, 3, 4, 8, 12, 16, 100),
            most,
            fault == Fault.RECEIVES_MORE ? most : Math.max(1, n * most / one(random, 1, 1, 2, n)),
            random.nextBoolean());
    Form form = new Form(1 + random.nextInt(4), /* wholeLines= */ random.nextInt(4) > 0, 0);
    long lineBytes = RaggedLayout.of(sizes, form).lineBytes();
    if (random.nextInt(3) == 0) {
      lineBytes = lineBytes / 16 * 8;
    }
    int threads = 32 * (1 + random.nextInt(4));
    return new Run(sizes, form, threads, one(random, 3, 6, 12), lineBytes, fault);
  }

  /** Elements of all sizes at all addresses, counts in memory that the call writes. */
  @Test
  void randomCounts() throws Exception {
    System.out.println("seed " + SEED);
    Random random = new Random(SEED);
    for (int run = 0; run < 60; run++) {
      draw(random, one(random, 1, 2, 2, 3, 4, 5, 8, 9), Fault.NONE).check(random.nextInt(1 << 30));
    }
  }

  @Test
  void asManyRanksAsThereMayBe() throws Exception {
    Random random = new Random(SEED);
    Sizes sizes = new Sizes(RaggedLayout.RANKS, 3, 5, RaggedLayout.RANKS * 5, /* wide= */ false);
    new Run(sizes, new Form(1, true, 0), 32, 4, 8, Fault.NONE).check(random.nextInt(1 << 30));
  }

  /** All ranks report it, and store no element. */
  @ParameterizedTest
  @EnumSource(mode = EnumSource.Mode.EXCLUDE, names = "NONE")
  void wrongCalls(Fault fault) throws Exception {
    Random random = new Random(SEED);
    for (int run = 0; run < 5; run++) {
      draw(random, one(random, 2, 3, 5), fault).check(random.nextInt(1 << 30));
    }
  }
}
