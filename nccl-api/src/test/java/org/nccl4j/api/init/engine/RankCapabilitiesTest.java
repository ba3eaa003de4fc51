package org.nccl4j.api.init.engine;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.init.connect.NamedProvider;
import org.nccl4j.api.init.connect.Routes;
import org.nccl4j.api.init.exchange.HostLayout;
import org.nccl4j.api.plan.algorithm.CommunicatorProfile;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.Device;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.kernel.KernelDevice.BlockRoom;

/** Facts of ranks that differ, of which all make the same. */
class RankCapabilitiesTest {
  private static byte[] facts(int cores) {
    return facts(cores, BlockRoom.UNLIMITED);
  }

  private static byte[] facts(int cores, BlockRoom room) {
    return new RankCapabilities(
            Device.Kind.HOST,
            true,
            false,
            false,
            64,
            true,
            room,
            cores,
            "",
            TuningSettings.of(Settings.ofProcess(Map.of()), Device.Kind.HOST),
            "",
            "host")
        .toBytes();
  }

  /** Which groups one kernel runs is decided alike. Measured times do not depend on it. */
  @Test
  void ranksLaunchGroupsTogetherOrNoneDoes() {
    TuningSettings all = TuningSettings.of(Settings.ofProcess(Map.of()), Device.Kind.CUDA);
    TuningSettings none =
        TuningSettings.of(Settings.ofProcess(Map.of("NCCL4J_GROUP_FUSE", "0")), Device.Kind.CUDA);
    InvalidUsageException e =
        assertThrows(InvalidUsageException.class, () -> all.check(0, none, 1));
    assertTrue(
        e.problem().contains("ranks 0 and 1 have different values of NCCL4J_GROUP_FUSE"),
        e.problem());
    assertEquals(all.conditions(), none.conditions());
  }

  @Test
  void costsGoByTheFewestCoresOfARank() {
    for (List<Integer> cores : List.of(List.of(8, 1, 4), List.of(1, 8, 4))) {
      CommunicatorProfile common =
          RankCapabilities.common(
              cores.stream().map(RankCapabilitiesTest::facts).toList(), hosts(), Optional.empty());
      assertEquals(1, common.cores());
    }
  }

  /** Blocks wait for the other ranks' blocks of their number. */
  @Test
  void blocksGoByTheRankWithTheLeastRoom() {
    List<byte[]> facts =
        List.of(
            facts(8, new BlockRoom(28, 56)),
            facts(8, new BlockRoom(40, 40)),
            facts(8, new BlockRoom(132, 264)));
    CommunicatorProfile common = RankCapabilities.common(facts, hosts(), Optional.empty());
    assertEquals(new BlockRoom(28, 40), common.room());
    assertEquals(new BlockRoom(28, 40), common.of(2, 1, 2, Optional.empty()).room(), "of a split");
  }

  /** Its name is of no matter. */
  @Test
  void aTransportOfAThirdPartyReachesMemoryWhereItSaysSo() {
    Routes.NamedTransport shares = route(new NamedProvider("theirs", true));
    Routes.NamedTransport copies = route(new NamedProvider("P2P", false));
    assertTrue(RankCapabilities.reaches(Arrays.asList(null, shares, shares)));
    assertFalse(RankCapabilities.reaches(Arrays.asList(shares, null, copies)));
  }

  private static Routes.NamedTransport route(NamedProvider provider) {
    return new Routes.NamedTransport(provider, null);
  }

  private static HostLayout hosts() {
    return new HostLayout(List.of(List.of(0, 1, 2)));
  }
}
