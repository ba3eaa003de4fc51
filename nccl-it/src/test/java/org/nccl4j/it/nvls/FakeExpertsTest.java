package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.DataType;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.QuantisedWork;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/** Quantised sums and exchanges with experts on GPUs, with the fake driver. */
@Timeout(600)
class FakeExpertsTest {
  private static final String LOAD = "cuModuleLoadData(";
  private static final String ALLOCATE = "cuMemAlloc_v2";
  private static final String FREE = "cuMemFree_v2";

  @TempDir Path folder;

  /** A load after the creation could wait for another communicator's kernel. */
  @Test
  void theirKernelsAreLoadedAtCreationAndTheirLaunchesHaveNames() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    Ran ran =
        FakeGpuProcess.in(folder)
            .run(
                Map.of("NCCL_NVLS_ENABLE", "0", "NCCL4J_PRELOAD_KERNELS", "all"),
                FakeExpertRanks.class);
    int created = ran.calls().indexOf("cuMemAlloc_v2(" + FakeExpertRanks.MARK_BYTES + ")");
    assertTrue(created > 0, ran.calls().toString());
    List<String> later = ran.calls().subList(created, ran.calls().size());
    assertEquals(List.of(), later.stream().filter(call -> call.startsWith(LOAD)).toList());
    long first = part(DataType.FLOAT32, /* averages= */ true, 4096);
    long second = part(DataType.BFLOAT16, /* averages= */ false, 4096);
    for (int rank = 0; rank < 2; rank++) {
      assertEquals(
          List.of(
              "refused: tokens begins at a multiple of 8 alone",
              "refused: the residual begins at a multiple of 2 alone",
              "quantise of 4096 float, 16384 bytes",
              "alltoall of %1$d uint8, for a quantised all_reduce, %1$d bytes".formatted(first),
              "quantised_sum of 2048 float, 8192 bytes",
              "all_gather of %1$d uint8, for a quantised all_reduce, %1$d bytes".formatted(first),
              "dequantise of 4096 float, 16384 bytes",
              "quantise of 4096 bfloat16, 8192 bytes",
              "alltoall of %1$d uint8, for a quantised reduce_scatter, %1$d bytes"
                  .formatted(second),
              "quantised_sum of 2048 bfloat16, 4096 bytes",
              "dispatch of 1792 bfloat16, 3584 bytes",
              "combine of 1792 bfloat16, 3584 bytes",
              "dispatch of 1792 bfloat16, 3584 bytes", // in two parts
              "dispatch of 1792 bfloat16, 3584 bytes"),
          said(ran, rank),
          ran.output());
    }
  }

  /** Plain within a host, quantised between hosts; the kernels are those of one host. */
  @Test
  void quantisedSumsOfPairsOfRanksGoHierarchically() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    Ran ran =
        FakeGpuProcess.in(folder)
            .run(
                Map.of("NCCL_NVLS_ENABLE", "0", "FAKECUDA_DEVICES", "4"),
                FakeExpertRanks.class,
                "pairs");
    long first = bytes(DataType.FLOAT32, 4, 4);
    long second = bytes(DataType.BFLOAT16, 1, 4);
    for (int rank = 0; rank < 4; rank++) {
      assertEquals(
          List.of(
              "alltoall of 8192 uint8, for copies of a quantised all_reduce within hosts, 8192 bytes",
              "quantise of 2048 float, 8192 bytes",
              "alltoall of %1$d uint8, for parts of a quantised all_reduce between hosts, %1$d bytes"
                  .formatted(first),
              "quantised_sum of 1024 float, 4096 bytes",
              "all_gather of %1$d uint8, for parts of a quantised all_reduce between hosts, %1$d bytes"
                  .formatted(first),
              "dequantise of 4096 float, 16384 bytes",
              "alltoall of 4096 uint8, for copies of a quantised reduce_scatter within hosts, 4096 bytes",
              "quantise of 2048 bfloat16, 4096 bytes",
              "alltoall of %1$d uint8, for parts of a quantised reduce_scatter between hosts, %1$d bytes"
                  .formatted(second),
              "quantised_sum of 1024 bfloat16, 2048 bytes"),
          said(ran, rank),
          ran.output());
    }
  }

  /** The lines of a rank. */
  private static List<String> said(Ran ran, int rank) {
    String prefix = "rank %d: ".formatted(rank);
    return ran.output()
        .lines()
        .filter(line -> line.startsWith(prefix))
        .map(line -> line.substring(prefix.length()))
        .toList();
  }

  private static long bytes(DataType type, int divisor, int parts) {
    return new QuantisedWork.Parts(
            type, DataType.FLOAT8_E4M3, 32, divisor, parts, 4096 / parts, 4096)
        .bytes();
  }

  /** The graph's two memories are kept, and the two that no graph knows are not. */
  @Test
  void quantisedSumsKeepTheMemoryOfGraphsAlone() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    Ran ran =
        FakeGpuProcess.in(folder)
            .run(Map.of("NCCL_NVLS_ENABLE", "0"), FakeExpertRanks.class, "grow");
    long parts =
        part(DataType.FLOAT32, /* averages= */ false, 4096)
            + part(DataType.FLOAT32, /* averages= */ false, 4 * 4096);
    assertEquals(2, ranks(ran, 2 * 2 * parts + " bytes"), ran.output());
  }

  /** Nothing was sent, so that there is nothing to receive. */
  @Test
  void anExchangeOfGraphsThatAreDroppedIsClosed() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    Ran ran =
        FakeGpuProcess.in(folder)
            .run(Map.of("NCCL_NVLS_ENABLE", "0"), FakeExpertRanks.class, "drop");
    assertEquals(2, ranks(ran, "closed"), ran.output());
  }

  /** The host moves expert numbers and weights alone. */
  @Test
  void betweenHostsKernelsPackPlaceAndAdd() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    Ran ran =
        FakeGpuProcess.in(folder)
            .run(
                Map.of("NCCL_NVLS_ENABLE", "0", "NCCL4J_PRELOAD_KERNELS", "all"),
                FakeExpertRanks.class,
                "hosts");
    int created = ran.calls().indexOf("cuMemAlloc_v2(" + FakeExpertRanks.MARK_BYTES + ")");
    List<String> later = ran.calls().subList(created, ran.calls().size());
    assertEquals(List.of(), later.stream().filter(call -> call.startsWith(LOAD)).toList());
    for (int rank = 0; rank < 2; rank++) {
      assertEquals(
          List.of(
              "all_gather of 34 int32, 136 bytes",
              "dispatch of 1792 bfloat16, 3584 bytes",
              "dispatch of 1792 bfloat16, 3584 bytes",
              "combine of 1792 bfloat16, 3584 bytes",
              "combine of 1792 bfloat16, 3584 bytes"),
          said(ran, rank),
          ran.output());
    }
  }

  /**
   * One of the last allocations of two ranks fails, and all after it, so that a rank lacks memory.
   */
  @Test
  void aRankThatLacksMemoryIsAnErrorOfAllRanks() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    FakeGpuProcess program = FakeGpuProcess.in(folder);
    Ran good = program.run(Map.of("NCCL_NVLS_ENABLE", "0"), FakeExpertRanks.class, "create");
    assertEquals(2, ranks(good, "created, true"), good.output());
    long all = good.count(ALLOCATE);
    int alone = 0;
    // Other threads allocate too, so that the last ones have other numbers in each run.
    for (long nth = all + 1; nth >= all - 8 && (nth >= all - 2 || alone == 0); nth--) {
      String fail = ALLOCATE + ":2:" + nth;
      Ran ran =
          program.run(
              Map.of("NCCL_NVLS_ENABLE", "0", "FAKECUDA_FAIL", fail),
              FakeExpertRanks.class,
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

  private static long open(Ran ran) {
    return ran.count(ALLOCATE) - ran.count(FREE);
  }

  /** Ranks with a line that begins with a pattern. */
  private static int ranks(Ran ran, String pattern) {
    Pattern wanted = Pattern.compile("^rank \\d: " + pattern);
    return (int) ran.output().lines().filter(line -> wanted.matcher(line).find()).count();
  }

  /** Bytes of a part of some elements on two ranks. */
  private static long part(DataType type, boolean averages, int count) {
    return new QuantisedWork.Parts(
            type, DataType.FLOAT8_E4M3, 32, averages ? 2 : 1, 2, count / 2, count)
        .bytes();
  }
}
