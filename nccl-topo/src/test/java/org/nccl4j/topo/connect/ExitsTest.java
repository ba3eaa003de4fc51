package org.nccl4j.topo.connect;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.topo.TestMachines;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.cluster.Cluster;
import org.nccl4j.topo.cluster.ClusterOptions;
import org.nccl4j.topo.path.PeerStatus;

/** By which network, and through which GPU, what a rank sends leaves its machine. */
class ExitsTest {
  private static final int GPUS = 8;

  private static Exits exits(String machine, String... settings) {
    Map<String, String> values = new HashMap<>();
    for (String setting : settings) {
      values.put(setting.split("=")[0], setting.split("=")[1]);
    }
    TopoSettings topo = TopoSettings.parse(values);
    ClusterOptions options = new ClusterOptions(topo, PeerStatus.ALLOWED, false);
    return new Exits(Cluster.of(TestMachines.read(machine), 2, options).comm(), topo);
  }

  private static String exit(Exits exits, int rank, int peer) {
    return exits.of(rank, peer).map(e -> e.net().net().name() + " of " + e.rank()).orElse("own");
  }

  /** Card n is beside GPU n: what goes to GPU p of the other machine leaves by card p. */
  @Test
  void dataLeaveByTheCardOfTheReceiversRail() {
    Exits exits = exits("dgx-h100");
    for (int rank = 0; rank < 2 * GPUS; rank++) {
      for (int peer = 0; peer < 2 * GPUS; peer++) {
        boolean there = rank / GPUS != peer / GPUS;
        int beside = rank / GPUS * GPUS + peer % GPUS;
        Optional<Exits.Exit> exit = exits.of(rank, peer);
        int by = exit.map(Exits.Exit::rank).orElse(rank);
        assertEquals(there ? beside : rank, by, rank + " to " + peer);
        assertTrue(there || exit.isEmpty(), rank + " to " + peer);
        exit.ifPresent(e -> assertEquals(by % GPUS, e.net().net().dev()));
      }
    }
  }

  @ParameterizedTest
  @CsvSource({
    "NCCL_PXN_DISABLE=1",
    "NCCL_P2P_PXN_LEVEL=0",
    "NCCL_NET_GDR_LEVEL=LOC", // cards that do not read GPUs gain nothing by another
    "NCCL_P2P_DISABLE=1"
  })
  void whereItIsForbiddenAllGoesByTheOwnCard(String setting) {
    Exits exits = exits("dgx-h100", setting);
    for (int peer = GPUS; peer < 2 * GPUS; peer++) {
      String exit = exit(exits, 0, peer);
      assertTrue(exit.equals("own") || exit.endsWith(" of 0"), exit);
    }
  }

  @Test
  void levelOneTakesPathsThatAreThere() {
    assertEquals("mlx5_3 of 3", exit(exits("dgx-h100", "NCCL_P2P_PXN_LEVEL=1"), 0, GPUS + 3));
  }

  @Test
  void railsThatMustNotBeCrossedAreKeptWithoutRelaysToo() {
    Exits exits = exits("dgx-h100", "NCCL_PXN_DISABLE=1", "NCCL_CROSS_NIC=0");
    assertEquals("mlx5_3 of 0", exit(exits, 0, GPUS + 3));
  }

  /** GPUs 0 to 3 have one card among them, beside GPU 0; 4 to 7 the other, beside GPU 4. */
  @Test
  void whoHasNoCardSendsThroughWhoHasOne() {
    Exits exits = exits("hgx-h100-2nic");
    Set<String> seen = new HashSet<>();
    for (int rank = 0; rank < GPUS; rank++) {
      for (int peer = GPUS; peer < 2 * GPUS; peer++) {
        String exit = exit(exits, rank, peer);
        seen.add(exit);
        assertTrue(exit.equals("own") ? rank % 4 == 0 : exit.matches("mlx5_(0 of 0|1 of 4)"), exit);
      }
    }
    assertEquals(Set.of("own", "mlx5_0 of 0", "mlx5_1 of 4"), seen);
  }
}
