package org.nccl4j.api.init;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.plan.RankFacts;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.Device;

/** Facts of ranks that differ, of which all make the same. */
class DomainFactsTest {
  private static byte[] facts(int cores) {
    return new DomainFacts(
            Device.Kind.HOST,
            true,
            false,
            false,
            64,
            cores,
            "",
            ChoosingSettings.of(Settings.ofProcess(Map.of()), Device.Kind.HOST),
            "host")
        .toBytes();
  }

  @Test
  void costsGoByTheFewestCoresOfARank() {
    for (List<Integer> cores : List.of(List.of(8, 1, 4), List.of(1, 8, 4))) {
      RankFacts common =
          DomainFacts.common(
              cores.stream().map(DomainFactsTest::facts).toList(), hosts(), Optional.empty());
      assertEquals(1, common.cores());
    }
  }

  private static Hosts hosts() {
    return new Hosts(List.of(List.of(0, 1, 2)));
  }
}
