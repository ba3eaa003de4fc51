package org.nccl4j.device.cuda.driver;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.bind.CudaDriver;
import org.nccl4j.device.bind.Offheap;

/** The arguments of cuIpcOpenMemHandle, whose structure each architecture passes its own way. */
class IpcHandleCallTest {
  private final Offheap out = new Offheap(8);
  private final Offheap handle = new Offheap(SharingLibrary.IPC_HANDLE_BYTES);
  private final List<Object> arguments = new ArrayList<>();
  private final CudaDriver driver =
      (CudaDriver)
          Proxy.newProxyInstance(
              CudaDriver.class.getClassLoader(),
              new Class<?>[] {CudaDriver.class},
              (proxy, method, given) -> {
                assertEquals("cuIpcOpenMemHandle_v2", method.getName());
                arguments.addAll(Arrays.asList(given));
                return 0;
              });

  @Test
  void theWordsLieOnTheStackOfX86() {
    for (int word = 0; word < 8; word++) {
      handle.putLong(8 * word, 10 + word);
    }
    SharingLibrary.openIpcHandle(driver, "amd64", out, handle);
    assertEquals(out.address(), arguments.get(0));
    assertEquals(List.of(10L, 11L, 12L, 13L, 14L, 15L, 16L, 17L), arguments.subList(6, 14));
  }

  @Test
  void theAddressIsPassedOnAarch64() {
    SharingLibrary.openIpcHandle(driver, "aarch64", out, handle);
    assertEquals(List.of(out.address(), handle.address(), 1), arguments);
  }

  @Test
  void nothingIsCalledWhereTheWayIsNotKnown() {
    var e =
        assertThrows(
            InvalidUsageException.class,
            () -> SharingLibrary.openIpcHandle(driver, "ppc64le", out, handle));
    assertTrue(e.getMessage().contains("NCCL_P2P_DISABLE=1"), e.getMessage());
    assertEquals(List.of(), arguments);
  }
}
