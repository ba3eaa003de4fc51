package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/** Metrics and profilers of ranks on GPUs, with the fake driver. */
@Timeout(600)
class ToldGpusTest {
  private static final int GPUS = 2;

  @TempDir static Path folder;

  /** Such a function would keep the stream from going on until it has run. */
  @Test
  void endsAreToldWithoutHostFunctionsAndBeforeCloseReturns() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    Ran ran =
        FakeGpuProcess.in(folder)
            .run(
                Map.of("NCCL_NVLS_ENABLE", "0", "FAKECUDA_DEVICES", Integer.toString(GPUS)),
                ToldGpuRanks.class,
                Files.createDirectory(folder.resolve("plugin")).toString());
    String output = ran.output();
    assertEquals(0, ran.count("cuLaunchHostFunc"), output);
    assertTrue(output.contains("threads: " + GPUS + "\n"), output);
    String all =
        IntStream.range(1, ToldGpuRanks.CALLS)
            .mapToObj(call -> "ends " + call)
            .collect(Collectors.joining(", ", "told: [", ", closes]\n"));
    for (String rank : List.of("a0 ", "a1 ", "b0 ", "b1 ")) {
      assertTrue(output.contains(rank + all), output);
    }
    assertFalse(output.contains("\non "), output);
    double calls = ToldGpuRanks.CALLS;
    assertTrue(output.contains("launched: " + Collections.nCopies(2 * GPUS, calls) + "\n"), output);
    assertTrue(
        output.contains("ended: " + Collections.nCopies(2 * GPUS, calls - 1) + "\n"), output);
    assertEquals(ran.count("cuEventCreate"), ran.count("cuEventDestroy_v2"), output);
    assertEquals(0, ran.count("misuse"), output);
    assertEquals(0, ran.warnings(), output);
  }
}
