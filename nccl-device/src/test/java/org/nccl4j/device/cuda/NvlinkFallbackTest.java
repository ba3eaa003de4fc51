package org.nccl4j.device.cuda;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.device.cuda.nvml.NvmlGpu;

/** NVLinks as peers' atomics show them. */
class NvlinkFallbackTest {
  private static final List<String> THREE = List.of("0000:02:00.0", "0000:03:00.0", "0000:04:00.0");

  @ParameterizedTest
  @CsvSource({"70, 6", "80, 12", "90, 18", "100, 18"})
  void linksOfAllToAllLeadToASwitch(int capability, int links) {
    assertEquals(Map.of(NvmlGpu.UNSEEN, links), NvlinkFallback.share(capability, THREE, true));
  }

  @Test
  void otherLinksAreSharedOutAmongThosePeers() {
    assertEquals(
        Map.of("0000:02:00.0", 2, "0000:03:00.0", 2, "0000:04:00.0", 2),
        NvlinkFallback.share(70, THREE, false));
    // A bridge between two, of workstation GPUs and of others.
    assertEquals(Map.of("0000:02:00.0", 4), NvlinkFallback.share(86, THREE.subList(0, 1), false));
    assertEquals(Map.of("0000:02:00.0", 12), NvlinkFallback.share(80, THREE.subList(0, 1), true));
  }

  @Test
  void withoutLinksThereAreNone() {
    assertEquals(Map.of(), NvlinkFallback.share(90, List.of(), false));
    assertEquals(Map.of(), NvlinkFallback.share(89, THREE, true));
    assertEquals(Map.of(), NvlinkFallback.share(50, THREE, true));
  }

  /** The recording driver's two GPUs have atomics between them. */
  @Test
  void theDriverIsAsked() {
    FakeCuda.get();
    CudaDevice device = CudaDevices.probe().device(0);
    assertEquals(Map.of("0000:0b:00.0", 18), NvlinkFallback.of(device));
  }
}
