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

/** By which network, and through which GPU, what a rank sends leaves its machine. */
class EgressRoutesTest {
  private static final int GPUS = 8;

  private static EgressRoutes routes(String machine, String... settings) {
    Map<String, String> values = new HashMap<>();
    for (String setting : settings) {
      values.put(setting.split("=")[0], setting.split("=")[1]);
    }
    return new EgressRoutes(
        TestMachines.cluster(machine, 2, values).comm(), TopoSettings.parse(values));
  }

  private static String egress(EgressRoutes routes, int rank, int peer) {
    return routes.of(rank, peer).map(e -> e.net().net().name() + " of " + e.rank()).orElse("own");
  }

  /** Card n is beside GPU n: what goes to GPU p of the other machine leaves by card p. */
  @Test
  void dataLeaveByTheCardOfTheReceiversRail() {
    EgressRoutes routes = routes("dgx-h100");
    for (int rank = 0; rank < 2 * GPUS; rank++) {
      for (int peer = 0; peer < 2 * GPUS; peer++) {
        boolean there = rank / GPUS != peer / GPUS;
        int beside = rank / GPUS * GPUS + peer % GPUS;
        Optional<EgressRoutes.Egress> egress = routes.of(rank, peer);
        int by = egress.map(EgressRoutes.Egress::rank).orElse(rank);
        assertEquals(there ? beside : rank, by, rank + " to " + peer);
        assertTrue(there || egress.isEmpty(), rank + " to " + peer);
        egress.ifPresent(e -> assertEquals(by % GPUS, e.net().net().dev()));
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
    EgressRoutes routes = routes("dgx-h100", setting);
    for (int peer = GPUS; peer < 2 * GPUS; peer++) {
      String egress = egress(routes, 0, peer);
      assertTrue(egress.equals("own") || egress.endsWith(" of 0"), egress);
    }
  }

  @Test
  void levelOneTakesPathsThatAreThere() {
    assertEquals("mlx5_3 of 3", egress(routes("dgx-h100", "NCCL_P2P_PXN_LEVEL=1"), 0, GPUS + 3));
  }

  @Test
  void railsThatMustNotBeCrossedAreKeptWithoutRelaysToo() {
    EgressRoutes routes = routes("dgx-h100", "NCCL_PXN_DISABLE=1", "NCCL_CROSS_NIC=0");
    assertEquals("mlx5_3 of 0", egress(routes, 0, GPUS + 3));
  }

  /** GPUs 0 to 3 have one card among them, beside GPU 0; 4 to 7 the other, beside GPU 4. */
  @Test
  void whoHasNoCardSendsThroughWhoHasOne() {
    EgressRoutes routes = routes("hgx-h100-2nic");
    Set<String> seen = new HashSet<>();
    for (int rank = 0; rank < GPUS; rank++) {
      for (int peer = GPUS; peer < 2 * GPUS; peer++) {
        String egress = egress(routes, rank, peer);
        seen.add(egress);
        assertTrue(
            egress.equals("own") ? rank % 4 == 0 : egress.matches("mlx5_(0 of 0|1 of 4)"), egress);
      }
    }
    assertEquals(Set.of("own", "mlx5_0 of 0", "mlx5_1 of 4"), seen);
  }
}
