package org.nccl4j.api.init;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
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

  /** Its name is of no matter. */
  @Test
  void aTransportOfAThirdPartyReachesMemoryWhereItSaysSo() {
    Routes.NamedTransport shares = route(new NamedProvider("theirs", true));
    Routes.NamedTransport copies = route(new NamedProvider("P2P", false));
    assertTrue(DomainFacts.reaches(Arrays.asList(null, shares, shares)));
    assertFalse(DomainFacts.reaches(Arrays.asList(shares, null, copies)));
  }

  private static Routes.NamedTransport route(NamedProvider provider) {
    return new Routes.NamedTransport(provider, null);
  }

  private static Hosts hosts() {
    return new Hosts(List.of(List.of(0, 1, 2)));
  }
}
