package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;
import org.nccl4j.it.nvls.FakeGpuProcess.Running;

/** A rank whose kernel has faulted, with the fake driver: each call of the driver fails. */
@Timeout(600)
class LostContextTest {
  @TempDir private Path folder;

  @Test
  void theOtherRankIsToldAndCloseEndsAllThreads() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    FakeGpuProcess program = FakeGpuProcess.in(folder);
    String id = UniqueId.create().toString();
    String heard = folder.resolve("heard").toString();
    Running first = program.start(Map.of(), LostContextRank.class, "0", id, heard);
    Ran lost = program.start(Map.of(), LostContextRank.class, "1", id, heard).end();
    Ran other = first.end();
    assertTrue(other.output().contains("rank 1"), other.output());
    assertTrue(other.output().contains("CUDA_ERROR_ILLEGAL_ADDRESS"), other.output());
    assertTrue(other.output().contains("NCCL4J-RANK-FAILED"), other.output());
    assertTrue(lost.output().contains("threads after close: []"), lost.output());
    assertEquals(0, other.status(), other.output());
    assertEquals(0, lost.status(), lost.output());
  }
}
