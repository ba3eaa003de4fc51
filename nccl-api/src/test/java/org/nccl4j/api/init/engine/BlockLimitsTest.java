package org.nccl4j.api.init.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.plan.algorithm.CtaLimits;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.Device;

/** Blocks of an operation are bound by both of NCCL's ways to say so. */
class BlockLimitsTest {
  @Test
  void channelsAndBlocksBindTogether() {
    assertEquals(new CtaLimits(1, 64, 64), limits(Map.of()));
    assertEquals(new CtaLimits(1, 8, 64), limits(Map.of("NCCL_MAX_NCHANNELS", "8")));
    assertEquals(new CtaLimits(1, 6, 64), limits(Map.of("NCCL_MAX_NRINGS", "6")));
    assertEquals(
        new CtaLimits(4, 8, 64),
        limits(
            Map.of(
                "NCCL_MAX_NCHANNELS", "8",
                "NCCL_MAX_CTAS", "16",
                "NCCL_MIN_NCHANNELS", "2",
                "NCCL_MIN_CTAS", "4")));
    assertEquals(
        new CtaLimits(12, 16, 64),
        limits(Map.of("NCCL_MAX_CTAS", "16", "NCCL_MIN_NCHANNELS", "12")));
  }

  @Test
  void oneConnectionToAGpuIsOneQueue() {
    assertTrue(KernelSpecs.hasOneQueue(Map.of("CUDA_DEVICE_MAX_CONNECTIONS", " 1 ")));
    assertFalse(KernelSpecs.hasOneQueue(Map.of("CUDA_DEVICE_MAX_CONNECTIONS", "8")));
    assertFalse(KernelSpecs.hasOneQueue(Map.of()));
  }

  @Test
  void thePolicyOfEfficiencyIsABit() {
    assertEquals(new CtaLimits(1, 64, 64, true), limits(Map.of("NCCL_CTA_POLICY", "1")));
    assertEquals(new CtaLimits(1, 64, 64, false), limits(Map.of("NCCL_CTA_POLICY", "2")));
    assertEquals(new CtaLimits(1, 64, 64, true), limits(Map.of("NCCL_CTA_POLICY", "3")));
  }

  @Test
  void theHostHasNoBlocks() {
    Settings settings = Settings.ofProcess(Map.of("NCCL_MAX_NCHANNELS", "8"));
    assertEquals(CtaLimits.NONE, Engine.ctas(settings, Device.Kind.HOST));
  }

  @Test
  void thePolicyOfNoBlocksLeavesWhatMovesDataToCopyEngines() {
    String copies =
        "allgather:copyenginestream;broadcast:copyenginestream;alltoall:copyenginestream;"
            + "scatter:copyenginestream;gather:copyenginestream;sendrecv:copyengine";
    assertEquals(
        Set.of(copies.split(";")),
        Set.of(algorithms(Device.Kind.CUDA, "NCCL_CTA_POLICY", "2").split(";")));
    assertEquals("", algorithms(Device.Kind.HOST, "NCCL_CTA_POLICY", "2"));
    assertEquals("", algorithms(Device.Kind.CUDA, "NCCL_CTA_POLICY", "1"));
    assertEquals("ring", algorithms(Device.Kind.CUDA, "NCCL_CTA_POLICY", "2", "NCCL_ALGO", "Ring"));
    assertTrue(
        algorithms(Device.Kind.CUDA, "NCCL_CTA_POLICY", "3", "NCCL4J_DETERMINISM", "SIZE_INVARIANT")
            .startsWith("oneshot,twoshot;"));
  }

  private static String algorithms(Device.Kind kind, String... settings) {
    Map<String, String> texts = new HashMap<>();
    for (int s = 0; s < settings.length; s += 2) {
      texts.put(settings[s], settings[s + 1]);
    }
    return Engine.filter(Settings.ofProcess(texts), kind).algorithmText();
  }

  private static CtaLimits limits(Map<String, String> texts) {
    return Engine.ctas(Settings.ofProcess(texts), Device.Kind.CUDA);
  }
}
