package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/** Ragged exchanges on GPUs, with the fake driver. */
@Timeout(600)
class FakeRaggedTest {
  private static final String ALLOCATE = "cuMemAlloc_v2";
  private static final String FREE = "cuMemFree_v2";

  @TempDir static Path folder;
  private static FakeGpuProcess program;

  @BeforeAll
  static void buildTheFake() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    program = FakeGpuProcess.in(folder);
  }

  /** A load after the creation could wait for another communicator's kernel. */
  @Test
  void aCallIsOneKernelOrTwoThatWereLoadedAtCreation() throws Exception {
    Ran ran =
        program.run(
            Map.of("NCCL_NVLS_ENABLE", "0", "NCCL4J_PRELOAD_KERNELS", "all"),
            FakeRaggedRanks.class);
    int created = ran.calls().indexOf(ALLOCATE + "(" + FakeRaggedRanks.MARK_BYTES + ")");
    assertTrue(created > 0, ran.calls().toString());
    List<String> later = ran.calls().subList(created, ran.calls().size());
    assertEquals(
        List.of(), later.stream().filter(call -> call.startsWith("cuModuleLoadData(")).toList());
    assertEquals(
        2 * (3 + 4), later.stream().filter(call -> call.startsWith("cuLaunchKernel")).count());
    assertEquals(2, ran.output().lines().filter(line -> line.equals("refused: CAPTURE")).count());
    for (int rank = 0; rank < 2; rank++) {
      String prefix = "rank %d: ".formatted(rank);
      assertEquals(
          List.of(
              "refused true",
              "combines true",
              "ragged_all_to_all of up to 600 uint8 to each rank",
              "ragged_all_gather of up to 600 uint8 to each rank",
              "ragged_all_to_all of up to 600 uint8 to each rank",
              "ragged_reduce_scatter of up to 600 uint8 to each rank",
              "ragged_reduce_scatter of up to 600 uint8 to each rank",
              "ragged_reduce_scatter of up to 600 uint8 to each rank",
              "ragged_reduce_scatter of up to 600 uint8 to each rank"),
          ran.output()
              .lines()
              .filter(line -> line.startsWith(prefix))
              .map(line -> line.substring(prefix.length()))
              .toList(),
          ran.output());
    }
  }

  /**
   * One of the last allocations of two ranks fails, and all after it, so that a rank lacks memory.
   */
  @Test
  void aRankThatLacksMemoryIsAnErrorOfAllRanks() throws Exception {
    Ran good = program.run(Map.of("NCCL_NVLS_ENABLE", "0"), FakeRaggedRanks.class, "create");
    assertEquals(2, ranks(good, "created, true"), good.output());
    long all = good.count(ALLOCATE);
    int alone = 0;
    // Other threads allocate too, so that the last ones have other numbers in each run.
    for (long nth = all + 1; nth >= all - 8 && (nth >= all - 2 || alone == 0); nth--) {
      Ran ran =
          program.run(
              Map.of("NCCL_NVLS_ENABLE", "0", "FAKECUDA_FAIL", ALLOCATE + ":2:" + nth),
              FakeRaggedRanks.class,
              "create");
      int created = ranks(ran, "created, true");
      assertTrue(created == 0 || created == 2, ran.output());
      assertEquals(2 - created, ranks(ran, "\\w+Exception: .*OUT_OF_MEMORY"), ran.output());
      long failed = Math.max(0, ran.count(ALLOCATE) - (nth - 1));
      assertEquals(open(good), open(ran) - failed, "not freed: " + ran.output());
      assertTrue(created == 2 || failed > 0, ran.output());
      alone += failed == 1 ? 1 : 0;
    }
    assertTrue(alone > 0, "no run had one rank that lacked memory");
  }

  /** They exchange by messages. */
  @ParameterizedTest
  @ValueSource(strings = {"FAKECUDA_NO_PEERS", "NCCL_P2P_DISABLE", "FAKECUDA_CORRUPT"})
  void gpusThatDoNotReachEachOtherNeedNoWindows(String name) throws Exception {
    Ran ran =
        program.run(Map.of("NCCL_NVLS_ENABLE", "0", name, "1"), FakeRaggedRanks.class, "create");
    assertEquals(0, ran.status(), ran.output());
    assertEquals(2, ranks(ran, "created, false"), ran.output());
  }

  private static long open(Ran ran) {
    return ran.count(ALLOCATE) - ran.count(FREE);
  }

  /** Ranks with a line that begins with a pattern. */
  private static int ranks(Ran ran, String pattern) {
    Pattern wanted = Pattern.compile("^rank \\d: " + pattern);
    return (int) ran.output().lines().filter(line -> wanted.matcher(line).find()).count();
  }
}
