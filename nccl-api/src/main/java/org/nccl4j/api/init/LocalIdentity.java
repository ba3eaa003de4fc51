package org.nccl4j.api.init;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.UUID;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.kernel.KernelDevice;

/** What this process tells others of itself. */
final class LocalIdentity {
  private static final String PROCESS = UUID.randomUUID().toString();

  private LocalIdentity() {}

  /**
   * This rank, as others see it.
   *
   * @param hostId what NCCL_HOSTID says, or ""
   * @param nets networks that it can use, best first
   */
  static PeerInfo of(int rank, Device device, String hostId, List<String> nets) {
    String namespaces = link("/proc/self/ns/mnt") + link("/proc/self/ns/net");
    String deviceId = ((KernelDevice) device).id();
    return new PeerInfo(
        rank, hostId(hostId), namespaces, PROCESS, userId(), device.kind(), deviceId, nets);
  }

  /**
   * The same for all ranks of this machine.
   *
   * @param given what NCCL_HOSTID says, or ""
   */
  static String hostId(String given) {
    return given.isEmpty()
        ? read("/proc/sys/kernel/hostname") + " " + read("/proc/sys/kernel/random/boot_id")
        : given;
  }

  private static String read(String file) {
    try {
      return Files.readString(Path.of(file)).trim();
    } catch (IOException e) {
      // Without a boot id no two processes can be known to share a host: each is its own.
      return PROCESS;
    }
  }

  private static String link(String file) {
    try {
      return Files.readSymbolicLink(Path.of(file)).toString();
    } catch (IOException e) {
      return "?";
    }
  }

  private static long userId() {
    try {
      return ((Integer) Files.getAttribute(Path.of("/proc/self"), "unix:uid")).longValue();
    } catch (IOException | UnsupportedOperationException e) {
      return -1;
    }
  }
}
