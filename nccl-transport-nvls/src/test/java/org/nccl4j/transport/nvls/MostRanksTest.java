package org.nccl4j.transport.nvls;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.function.Executable;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.Device;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.kernel.KernelDevice;

/** Communicators of more ranks than GPUs can have. */
@Timeout(600)
class MostRanksTest {
  private static final int MOST = 65_535;

  private final Device gpu =
      new FakeGpu(
          (KernelDevice)
              Proxy.newProxyInstance(
                  KernelDevice.class.getClassLoader(),
                  new Class<?>[] {KernelDevice.class},
                  (proxy, method, arguments) -> {
                    assertEquals("mostRanks", method.getName(), "nothing else is asked");
                    return MOST;
                  }));

  private static void assertRefused(Executable call) {
    InvalidArgumentException error = assertThrows(InvalidArgumentException.class, call);
    assertEquals(ErrorId.RANK, error.id());
    assertTrue(error.getMessage().contains("65536 ranks on a fake GPU"), error.getMessage());
    assertTrue(error.getMessage().contains("at most 65535 ranks"), error.getMessage());
  }

  /** The other 65,535 ranks have not come: the rank waits for none. */
  @Test
  void aRankRefusesBeforeItWaitsForOthers() {
    UniqueId id = UniqueId.create();
    assertRefused(() -> Communicator.initRank(MOST + 1, id, 3, gpu));
  }

  @Test
  void aProcessRefusesForAllItsRanks() {
    List<Device> all = Collections.nCopies(MOST + 1, gpu);
    assertRefused(() -> Communicator.initAll(all));
  }
}
