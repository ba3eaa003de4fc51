package org.nccl4j.device.kernel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.device.os.AllowedCores;

class KernelCommunicatorSpecTest {
  private static KernelCommunicatorSpec of(AllowedCores... local) {
    return new KernelCommunicatorSpec(
        "cores",
        /* rank= */ 0,
        /* nRanks= */ 3,
        new ConnectionLayout(512, 384, 256),
        List.of(),
        List.of(),
        List.of(),
        List.of(),
        KernelCommunicatorSpec.together(3),
        /* carried= */ false,
        List.of(local),
        Progress.NONE,
        Duration.ofSeconds(3),
        /* nvls= */ null,
        LaunchOptions.PLAIN,
        PeerConnector.NONE,
        SingleCopy.OFF);
  }

  /** Each of them sees one core alone, as launchers bind them. */
  @Test
  void ranksThatAreBoundApartHaveCoresForAll() {
    AllowedCores first = new AllowedCores(1, "0");
    AllowedCores second = new AllowedCores(1, "1");
    assertTrue(of(first, second).hasCoresForAll());
    assertFalse(of(first, second, first).hasCoresForAll());
    assertFalse(of(first, first).hasCoresForAll());
    assertEquals(2, of(first, second).localRanks());
  }
}
