package org.nccl4j.it.top;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.it.nvls.FakeGpuProcess;

/** Top, metrics and trace of ranks on GPUs, with the fake driver. */
@Timeout(600)
class WatchedGpusTest {
  private static final int GPUS = 4;

  @TempDir static Path folder;

  @Test
  void ranksOnGpusAreSeen() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    String seen =
        FakeGpuProcess.in(folder)
            .run(
                Map.of("NCCL_NVLS_ENABLE", "0", "FAKECUDA_DEVICES", Integer.toString(GPUS)),
                WatchedGpuRanks.class,
                folder.toString())
            .output();
    assertEquals("", WatchedGpuRanks.missing(seen, GPUS), seen);
    assertTrue(seen.contains("\"operation\":\"all_reduce of 1024 float (sum)\""), seen);
    assertFalse(seen.contains("\"device\":\"host\""), seen);
  }
}
