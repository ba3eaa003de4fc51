package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.Devices;
import org.nccl4j.device.Device;
import org.nccl4j.it.top.WatchedGpuRanks;

/** Top, metrics and trace of ranks on all GPUs. Needs GPUs. */
@Tag("gpu")
@Timeout(600)
class WatchedGpuTest {
  @TempDir Path folder;

  @Test
  void ranksOnGpusAreSeen() throws Exception {
    List<Device> gpus = List.copyOf(Devices.cuda().list());
    assumeTrue(gpus.size() > 1, "needs two GPUs");
    String seen = String.join("\n", WatchedGpuRanks.watch(gpus, folder));
    assertEquals("", WatchedGpuRanks.missing(seen, gpus.size()), seen);
    assertTrue(seen.contains("\n0" + WatchedGpuRanks.OUTSIDE), seen);
  }
}
