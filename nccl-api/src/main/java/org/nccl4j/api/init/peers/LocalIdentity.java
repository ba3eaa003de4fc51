package org.nccl4j.api.init.peers;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.UUID;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.kernel.KernelDevice;
import org.nccl4j.device.shm.FdMailbox;

/** This process's identity for other ranks. */
public final class LocalIdentity {
  private static final String PROCESS = UUID.randomUUID().toString();

  /** Letters of a host's name that are sent; a longer name is sent as its hash. */
  private static final int LONGEST = 256;

  private LocalIdentity() {}

  /**
   * This rank, as others see it.
   *
   * @param hostId what NCCL_HOSTID says, or ""
   * @param nets networks that it can use, best first
   */
  public static PeerInfo of(int rank, Device device, String hostId, List<String> nets) {
    long user = userId();
    String sharing = FdMailbox.reach(user) + " " + link("/proc/self/ns/user");
    String deviceId = ((KernelDevice) device).id();
    return new PeerInfo(
        rank, hostId(hostId), sharing, PROCESS, user, device.kind(), deviceId, nets);
  }

  /** The same for processes that see the same files and networks. */
  public static String container() {
    return link("/proc/self/ns/mnt") + link("/proc/self/ns/net");
  }

  /**
   * The same for all ranks of this machine.
   *
   * @param given what NCCL_HOSTID says, or ""
   */
  public static String hostId(String given) {
    if (given.isEmpty()) {
      return read("/proc/sys/kernel/hostname") + " " + read("/proc/sys/kernel/random/boot_id");
    }
    return given.length() <= LONGEST ? given : given.substring(0, LONGEST / 2) + " " + hash(given);
  }

  private static String hash(String text) {
    try {
      byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
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
