package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;
import org.nccl4j.it.nvls.FakeGpuProcess.Running;

/** A rank whose kernel has faulted, with the fake driver: each call of the driver fails. */
@Timeout(600)
class LostContextTest {
  @TempDir private Path folder;

  /** Connected through memory of the GPUs, or through the host's. */
  @ParameterizedTest
  @ValueSource(strings = {"0", "1"})
  void theOtherRankIsToldAndCloseEndsAllOfTheHost(String disabled) throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    FakeGpuProcess program = FakeGpuProcess.in(folder);
    String id = UniqueId.create().toString();
    String heard = folder.resolve("heard").toString();
    Map<String, String> way = Map.of("NCCL_P2P_DISABLE", disabled);
    Running first = program.start(way, LostContextRank.class, "0", id, heard);
    Ran lost = program.start(way, LostContextRank.class, "1", id, heard).end();
    Ran other = first.end();
    String both = other.output() + lost.output();
    assertTrue(other.output().contains("rank 1"), both);
    assertTrue(other.output().contains("CUDA_ERROR_ILLEGAL_ADDRESS"), both);
    assertTrue(other.output().contains("NCCL4J-RANK-FAILED"), both);
    assertTrue(lost.output().contains("threads after close: []"), both);
    assertTrue(lost.output().contains("sockets after close: 0"), both);
    assertEquals(lost.count("cuMemHostRegister_v2"), lost.count("cuMemHostUnregister"));
    assertEquals(0, other.status(), both);
    assertEquals(0, lost.status(), both);
  }
}
