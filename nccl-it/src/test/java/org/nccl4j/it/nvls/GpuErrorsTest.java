package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.it.cli.Main;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/** Error messages on GPUs that a communicator cannot use. */
@Timeout(600)
class GpuErrorsTest {
  private static final String SHARED = "NCCL4J-SHARED-GPU";

  @TempDir static Path folder;
  private static FakeGpuProcess program;

  @BeforeAll
  static void buildTheFake() throws Exception {
    program = FakeGpuProcess.in(folder);
  }

  private static List<String> ranks(Ran ran) {
    return ran.output().lines().filter(line -> line.startsWith("rank ")).toList();
  }

  @Test
  void theDoctorTellsOfADriverThatIsTooOld() throws Exception {
    Ran ran = program.start(Map.of("FAKECUDA_VERSION", "11080"), Main.class, "doctor").end();
    String output = ran.output().replaceAll("\\s+", " ");
    assertTrue(
        output.contains("too old: it supports CUDA 11.8 and 12.0 is needed; update"), output);
    assertTrue(output.contains("install NVIDIA's driver for CUDA 12 or newer"), output);
    assertEquals(0, ran.count("cuDevicePrimaryCtxRetain"), "nothing is done with it");
  }

  @Test
  void gpusLackWhatTheHostAloneHas() throws Exception {
    Map<String, String> named = Map.of("NCCL_ALGO", "allreduce:Doubling");
    Ran ran = program.run(named, FakeGpuErrors.class, "0", "1");
    assertEquals(List.of("rank 0: made", "rank 1: made"), ranks(ran), ran.output());
    String warning = "names Doubling, which only the host";
    assertEquals(2, ran.output().split(warning, -1).length, ran.output());
    Ran without = program.run(Map.of("NCCL_ALGO", "^Doubling"), FakeGpuErrors.class, "0", "1");
    assertTrue(!without.output().contains("names Doubling"), without.output());
  }

  @Test
  void twoRanksOnOneGpuMustBeAskedFor() throws Exception {
    Ran ran = program.run(Map.of(), FakeGpuErrors.class, "1", "1");
    for (String told : ranks(ran)) {
      assertTrue(told.contains("ranks 0 and 1 of communicator"), ran.output());
      assertTrue(told.contains("both use GPU 0000:0b:00.0"), ran.output());
      assertTrue(told.contains("or set NCCL_MULTI_RANK_GPU_ENABLE=1"), ran.output());
    }
    assertEquals(2, ranks(ran).size(), ran.output());
    assertTrue(ran.output().contains(SHARED), ran.output());
    assertEquals(0, ran.count("cuMemCreate"), "refused before anything is allocated");
    assertEquals(0, ran.count("cuMemAlloc_v2"), "refused before anything is allocated");
  }

  @Test
  void whoAsksForItIsToldWhatItCosts() throws Exception {
    Map<String, String> asked =
        Map.of(
            "NCCL_MULTI_RANK_GPU_ENABLE", "1", "NCCL_DEBUG", "INFO", "NCCL_DEBUG_SUBSYS", "INIT");
    Ran ran = program.run(asked, FakeGpuErrors.class, "1", "1");
    assertEquals(List.of("rank 0: made", "rank 1: made"), ranks(ran), ran.output());
    assertTrue(
        ran.output().contains("shares its GPU with rank 0: the driver loads no"), ran.output());
  }

  /** From the first rank that asks, or from the second. */
  @ParameterizedTest
  @ValueSource(ints = {1, 2})
  void memoryThatIsNotThereFailsAllRanksAndLeavesNothing(int from) throws Exception {
    String failing = "cuMemCreate:2:" + from;
    Ran ran = program.run(Map.of("FAKECUDA_FAIL", failing), FakeGpuErrors.class, "0", "1");
    List<String> told = ranks(ran);
    assertEquals(2, told.size(), ran.output());
    for (String rank : told) {
      assertTrue(rank.contains("cuMemCreate of "), ran.output());
      assertTrue(rank.contains("CUDA_ERROR_OUT_OF_MEMORY"), ran.output());
      assertTrue(rank.contains("free device memory, or use fewer"), ran.output());
    }
    boolean other = told.stream().anyMatch(rank -> rank.contains("NCCL4J-RANK-FAILED: rank "));
    assertTrue(from == 1 || other, "the rank that had memory is told which had none: " + told);
    assertEquals(from - 1L, ran.count("cuMemRelease"), ran.calls().toString());
    assertEquals(ran.count("cuMemMap"), ran.count("cuMemUnmap"));
    assertEquals(ran.count("cuMemAddressReserve"), ran.count("cuMemAddressFree"));
    assertEquals(ran.count("cuMemAlloc_v2"), ran.count("cuMemFree_v2"));
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
  }
}
