package org.nccl4j.api.init.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.init.peers.HostLayout;
import org.nccl4j.api.multicast.MulticastProvider.Offer;
import org.nccl4j.api.settings.Settings;

/** Offers of ranks whose programs lack nccl-transport-nvls, and what follows without offers. */
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

  /** The heads of large communicators are connected at the creation, where they may need it. */
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "3 | 16 | NCCL_NVLS_ENABLE=2 | true",
        "2 | 16 | NCCL_NVLS_ENABLE=2 | false",
        "3 | 0 | NCCL_NVLS_ENABLE=2 | false",
        "3 | 16 | NCCL_NVLS_ENABLE=0 | false",
        "3 | 16 | NCCL_ALGO=ring | false",
        "3 | 16 | NCCL4J_NVLS_MODE=off | false",
        "2 | 0 | NCCL_ALGO=NVLSTree | true",
      })
  void ranksOfSeveralMachinesMayUseIt(int fewest, int channels, String setting, boolean may) {
    HostLayout hosts =
        new HostLayout(
            List.of(
                IntStream.range(0, 4).boxed().toList(),
                IntStream.range(4, 4 + fewest).boxed().toList()));
    String[] words = setting.split("=");
    Settings settings = Settings.ofProcess(Map.of(words[0], words[1]));
    assertEquals(may, NvlsDecision.mayBeAmong(hosts, settings, () -> channels));
  }
}
