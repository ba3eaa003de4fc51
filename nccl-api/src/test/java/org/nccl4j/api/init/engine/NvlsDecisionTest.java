package org.nccl4j.api.init.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.multicast.MulticastProvider.Offer;
import org.nccl4j.api.settings.Settings;

/** The offer of a rank whose program lacks nccl-transport-nvls. */
class NvlsDecisionTest {
  /** A wanted offer that is missing is logged as a warning. */
  @ParameterizedTest
  @CsvSource({
    "'', auto, false",
    "'ring,tree', auto, false",
    "^nvls, auto, false",
    "NVLS, auto, true",
    "'ring;allreduce:nvlstree', auto, true",
    "NVLS, off, false",
    "'', hardware, true",
    "'', emulated, true"
  })
  void nvlsWithoutItsArtifactIsMissedIfTheSettingsAskForIt(
      String algorithms, String mode, boolean wanted) {
    Offer offer =
        NvlsDecision.absent(
            Settings.ofProcess(Map.of("NCCL_ALGO", algorithms, "NCCL4J_NVLS_MODE", mode)));
    assertEquals(wanted, offer.wanted());
    assertTrue(offer.form().isEmpty());
    assertTrue(offer.reason().contains("add this artifact"), offer::reason);
  }
}
