package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.Map;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.cuda.driver.KernelBuild;

/** The flight recorder estimates what GPUs send each other, with the fake driver. */
@Timeout(600)
class GpuTrafficTest {
  @TempDir static Path folder;
  private static FakeGpuProcess program;

  @BeforeAll
  static void buildTheFake() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    program = FakeGpuProcess.in(folder);
  }

  private static String run(String algorithm, long bytes) throws Exception {
    Map<String, String> settings = Map.of("NCCL_NVLS_ENABLE", "0", "FAKECUDA_DEVICES", "4");
    return program.run(settings, TrafficGpuRanks.class, algorithm, Long.toString(bytes)).output();
  }

  /** Of five sums of 4 MiB a rank of four sends one and a half times the bytes. */
  @Test
  void ringsAreEstimated() throws Exception {
    String output = run("Ring", 31_457_280);
    for (int rank = 0; rank < 4; rank++) {
      assertTrue(output.contains("rank " + rank + " sends 31457280: {P2P to "), output);
    }
  }

  /** Here it sends all of its data to each other rank. */
  @Test
  void anotherAlgorithmHasAnotherEstimate() throws Exception {
    String output = run("OneShot", 62_914_560);
    String sent =
        "rank 2 sends 62914560: {P2P to 0=20971520, P2P to 1=20971520, P2P to 3=20971520}";
    assertTrue(output.contains(sent), output);
  }
}
