package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/** A thread allocates nothing on the Java heap for warm operations of GPUs. */
@Timeout(600)
class GpuAllocationTest {
  private static final Pattern MEASURED =
      Pattern.compile("(?:group of \\d calls|\\w+): (\\d+) bytes");

  @TempDir static Path folder;

  @Test
  void neitherCallsNorGroupsAllocate() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    Ran ran = FakeGpuProcess.in(folder).run(Map.of(), FakeGpuAllocation.class);
    assertTrue(ran.count("cuLaunchKernelEx") > 4L * FakeGpuAllocation.OPERATIONS, ran.output());
    assertNothing(10, ran);
  }

  /** Two ranks' groups of four collectives, each by one kernel. */
  @Test
  void collectivesThatAreLaunchedTogetherDoNotAllocate() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    Map<String, String> lines = Map.of("NCCL_ALGO", "DirectLL");
    Ran ran = FakeGpuProcess.in(folder).run(lines, FakeGpuAllocation.class, "together");
    assertNothing(1, ran);
  }

  private static void assertNothing(int measurements, Ran ran) {
    int measured = 0;
    for (String line : ran.output().lines().toList()) {
      Matcher found = MEASURED.matcher(line);
      if (found.matches()) {
        assertEquals(0, Integer.parseInt(found.group(1)), ran.output());
        measured++;
      }
    }
    assertEquals(measurements, measured, ran.output());
  }
}
