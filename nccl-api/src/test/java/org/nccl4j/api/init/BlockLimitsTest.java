package org.nccl4j.api.init;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Map;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.plan.CtaLimits;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.Device;

/** Blocks of an operation are bound by both of NCCL's ways to say so. */
class BlockLimitsTest {
  @Test
  void channelsAndBlocksBindTogether() {
    assertEquals(new CtaLimits(1, 64), limits(Map.of()));
    assertEquals(new CtaLimits(1, 8), limits(Map.of("NCCL_MAX_NCHANNELS", "8")));
    assertEquals(new CtaLimits(1, 6), limits(Map.of("NCCL_MAX_NRINGS", "6")));
    assertEquals(
        new CtaLimits(4, 8),
        limits(
            Map.of(
                "NCCL_MAX_NCHANNELS", "8",
                "NCCL_MAX_CTAS", "16",
                "NCCL_MIN_NCHANNELS", "2",
                "NCCL_MIN_CTAS", "4")));
    assertEquals(
        new CtaLimits(12, 16), limits(Map.of("NCCL_MAX_CTAS", "16", "NCCL_MIN_NCHANNELS", "12")));
  }

  @Test
  void theHostHasNoBlocks() {
    Settings settings = Settings.ofProcess(Map.of("NCCL_MAX_NCHANNELS", "8"));
    assertEquals(CtaLimits.NONE, Engine.ctas(settings, Device.Kind.HOST));
  }

  private static CtaLimits limits(Map<String, String> texts) {
    return Engine.ctas(Settings.ofProcess(texts), Device.Kind.CUDA);
  }
}
