package org.nccl4j.topo;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Texts of settings. */
class TopoSettingsTest {
  /** Taken for unset, they would be searched for in vain. */
  @ParameterizedTest
  @CsvSource({
    "NCCL_P2P_LEVEL, PIXX, 'LOC, NVL, PIX, PXB, PHB or SYS'",
    "NCCL_NET_GDR_LEVEL, PBX, 'LOC, NVL, PIX, PXB, PHB or SYS'",
    "NCCL_NETDEVS_POLICY, MAX:x, 'AUTO, ALL, or MAX: and a number'",
    "NCCL_NETDEVS_POLICY, MAXIMUM, 'AUTO, ALL, or MAX: and a number'",
    "NCCL_NET_MERGE_LEVEL, PROT, 'PORT, or LOC, PIX, PXB, PHB or SYS'",
    "NCCL_NET_MERGE_POLICY, RAILS, 'RAIL, or nothing'",
  })
  void misspeltWordsAreErrors(String name, String text, String allowed) {
    TopologyException e =
        assertThrows(TopologyException.class, () -> TopoSettings.parse(Map.of(name, text)));
    assertTrue(e.problem().contains(name + "=" + text), e.problem());
    assertTrue(e.remedy().contains(allowed), e.remedy());
  }

  @Test
  void wordsMayHaveAnyCase() {
    TopoSettings settings =
        TopoSettings.parse(
            Map.of(
                "NCCL_P2P_LEVEL", "pxb",
                "NCCL_NET_GDR_LEVEL", "3",
                "NCCL_NETDEVS_POLICY", "max:2",
                "NCCL_NET_MERGE_LEVEL", "port"));
    assertEquals(Optional.of(PathType.PXB), settings.p2pLevel());
    assertEquals(PathType.PHB, settings.gdrLevel());
    assertEquals("MAX:2", settings.get(TopoSettings.NCCL_NETDEVS_POLICY));
    assertEquals("PORT", settings.get(TopoSettings.NCCL_NET_MERGE_LEVEL));
  }
}
