package org.nccl4j.it.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.nccl4j.device.DataType;
import org.nccl4j.device.cuda.driver.KernelBuild;
import org.nccl4j.device.kernel.QuantisedWork;
import org.nccl4j.it.nvls.FakeGpuProcess.Ran;

/** Quantised sums and exchanges with experts on GPUs, with the fake driver. */
@Timeout(180)
class FakeExpertsTest {
  private static final String LOAD = "cuModuleLoadData(";

  @TempDir Path folder;

  /** A load after the creation could wait for another communicator's kernel. */
  @Test
  void theirKernelsAreLoadedAtCreationAndTheirLaunchesHaveNames() throws Exception {
    assumeTrue(KernelBuild.present().absence().isEmpty(), "built without nvcc");
    Ran ran = FakeGpuProcess.in(folder).run(Map.of("NCCL_NVLS_ENABLE", "0"), FakeExpertRanks.class);
    int created = ran.calls().indexOf("cuMemAlloc_v2(" + FakeExpertRanks.MARK_BYTES + ")");
    assertTrue(created > 0, ran.calls().toString());
    List<String> later = ran.calls().subList(created, ran.calls().size());
    assertEquals(List.of(), later.stream().filter(call -> call.startsWith(LOAD)).toList());
    long first = part(DataType.FLOAT32, /* averages= */ true);
    long second = part(DataType.BFLOAT16, /* averages= */ false);
    for (int rank = 0; rank < 2; rank++) {
      String prefix = "rank %d: ".formatted(rank);
      assertEquals(
          List.of(
              "quantise of 4096 float, 16384 bytes",
              "alltoall of %1$d uint8, %1$d bytes".formatted(first),
              "quantised_sum of 2048 float, 8192 bytes",
              "all_gather of %1$d uint8, %1$d bytes".formatted(first),
              "dequantise of 4096 float, 16384 bytes",
              "quantise of 4096 bfloat16, 8192 bytes",
              "alltoall of %1$d uint8, %1$d bytes".formatted(second),
              "quantised_sum of 2048 bfloat16, 4096 bytes",
              "dispatch of 1792 bfloat16, 3584 bytes",
              "combine of 1792 bfloat16, 3584 bytes"),
          ran.output()
              .lines()
              .filter(line -> line.startsWith(prefix))
              .map(line -> line.substring(prefix.length()))
              .toList(),
          ran.output());
    }
  }

  /** Bytes of a part of 4096 elements on two ranks. */
  private static long part(DataType type, boolean averages) {
    return new QuantisedWork.Parts(type, DataType.FLOAT8_E4M3, 32, averages, 2, 2048, 4096).bytes();
  }
}
