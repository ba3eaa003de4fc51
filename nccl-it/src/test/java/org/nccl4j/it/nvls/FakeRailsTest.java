package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/** Kernels of all-to-alls by rails, with the recording fake in the driver's place. */
@Timeout(600)
class FakeRailsTest {
  @TempDir static Path folder;

  /** One kernel for each step, in graphs too, and no more memory after the first call. */
  @ParameterizedTest
  @CsvSource({"alltoall:rails, Rails, 2, true", "alltoall:^rails, Pairwise, 1, false"})
  void aCallIsAKernelForEachStep(String algorithms, String chosen, int kernels, boolean memory)
      throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    Ran ran =
        FakeGpuProcess.in(folder).run(Map.of("NCCL_ALGO", algorithms), FakeRailRanks.class, "aabb");
    assertEquals(0, ran.status(), ran.output());
    assertTrue(ran.output().contains("chosen: " + chosen), ran.output());
    assertEquals(0, ran.warnings(), ran.output());
    assertEquals(0, ran.count("misuse"), ran.calls().toString());
    assertEquals((FakeRailRanks.CALLS + 1L) * 4 * kernels, ran.count("cuLaunchKernelEx"));
    List<String> held =
        ran.output().lines().filter(line -> line.startsWith("memory ")).distinct().toList();
    assertEquals(1, held.size(), "the same with and without a graph: " + held);
    assertEquals(memory, held.get(0).contains("all-to-all by rails=65536"), held.get(0));
  }
}
