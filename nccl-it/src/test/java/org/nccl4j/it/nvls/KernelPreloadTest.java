package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.DataType;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.QuantisedWork;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/** The creation of communicators loads the kernels of all operations, with the fake driver. */
@Timeout(600)
class KernelPreloadTest {
  private static final int GPUS = 2;
  private static final String LOAD = "cuModuleLoadData";

  @TempDir static Path folder;
  private static FakeGpuProcess program;

  @BeforeAll
  static void buildTheFake() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    program = FakeGpuProcess.in(folder);
  }

  private static Ran run(Map<String, String> settings) throws Exception {
    Map<String, String> all = new HashMap<>(Map.of("NCCL4J_PRELOAD_KERNELS", "all"));
    all.putAll(settings);
    all.put("NCCL_NVLS_ENABLE", "0");
    return program.run(all, FakeGpuRanks.class);
  }

  /** The driver loads lazily, unless it is told otherwise; a load by an operation may wait. */
  @Test
  void byDefaultCreationLoadsTheKernelsOfAllTypes() throws Exception {
    for (String loading : List.of("LAZY", "EAGER")) {
      Ran ran = run(Map.of("CUDA_MODULE_LOADING", loading));
      // Over connections and between windows, for experts and quantised sums, and a ragged one.
      long floating = Stream.of(DataType.values()).filter(QuantisedWork.Parts::hasType).count();
      long families = 2 * (1 + DataType.values().length + floating) + 1;
      assertEquals(GPUS * families, ran.count(LOAD));
      String mark = "cuMemAlloc_v2(" + FakeGpuRanks.MARK_BYTES + ")";
      int created = ran.calls().indexOf(mark);
      assertTrue(created > 0, ran.calls().toString());
      assertEquals(
          GPUS * families,
          ran.calls().subList(0, created).stream().filter(c -> c.startsWith(LOAD)).count());
    }
  }

  /** Communicators are made all the same: their copy engines need no kernel. */
  @Test
  void whereNcclKernelsIsMissingTheFirstOperationNamesIt() throws Exception {
    Ran ran =
        program
            .start(
                path -> !path.toString().matches(".*(nccl-kernels|nccl-device.kernels).*"),
                Map.of(
                    "NCCL4J_PRELOAD_KERNELS",
                    "all",
                    "NCCL_NVLS_ENABLE",
                    "0",
                    "JAVA_TOOL_OPTIONS",
                    "-Dnccl4j.ctas=true"),
                FakeGpuRanks.class)
            .end();
    assertNotEquals(0, ran.status());
    assertTrue(
        ran.output()
            .contains("the artifact org.nccl4j:nccl-kernels is not on the class path or module"),
        ran.output());
    assertTrue(ran.output().contains("Remedy: add org.nccl4j:nccl-kernels"), ran.output());
    assertEquals(0, ran.count(LOAD));
  }

  @Test
  void noneLoadsNothing() throws Exception {
    assertEquals(0, run(Map.of("NCCL4J_PRELOAD_KERNELS", "none")).count(LOAD));
  }
}
