package org.nccl4j.transport.net.socket;

import java.io.IOException;
import java.net.InetAddress;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * A network interface with the address by which others reach it.
 *
 * @param name such as "eth0"
 * @param address of the host on it
 * @param megabits speed in Mbit/s
 * @param pciPath its place under /sys; empty if it is virtual
 * @param isKnown whether the system gives the speed, and it is that of hardware
 */
record Nic(String name, InetAddress address, int megabits, String pciPath, boolean isKnown) {
  private static final Path SYS = Path.of("/sys/class/net");

  /** Speed that NCCL assumes where the system gives none, in Mb/s. */
  private static final int DEFAULT_MEGABITS = 10_000;

  static Nic of(String name, InetAddress address) {
    int speed = speed(name);
    String pciPath = device(name);
    return speed > 0
        ? new Nic(name, address, speed, pciPath, !pciPath.isEmpty())
        : new Nic(name, address, DEFAULT_MEGABITS, pciPath);
  }

  /** An interface whose speed is assumed. */
  Nic(String name, InetAddress address, int megabits, String pciPath) {
    this(name, address, megabits, pciPath, /* isKnown= */ false);
  }

  /** Returns the speed in Mbit/s; 0 or less if it is unknown. */
  private static int speed(String name) {
    try {
      return Integer.parseInt(Files.readString(SYS.resolve(name).resolve("speed")).trim());
    } catch (IOException | NumberFormatException e) {
      return 0;
    }
  }

  private static String device(String name) {
    try {
      return SYS.resolve(name).resolve("device").toRealPath().toString();
    } catch (IOException e) {
      return "";
    }
  }

  /** True if it may be faster than a speed in Mbit/s; nobody knows how fast a virtual one is. */
  boolean mayExceed(int speed) {
    return megabits > speed || pciPath.isEmpty();
  }

  /** The vendor of a hardware interface, such as 0x1d0f; 0 if there is none. */
  int vendor() {
    try {
      return pciPath.isEmpty()
          ? 0
          : Integer.decode(Files.readString(Path.of(pciPath, "vendor")).trim());
    } catch (IOException | NumberFormatException e) {
      return 0;
    }
  }

  @Override
  public String toString() {
    return "%s %s".formatted(name, address.getHostAddress());
  }
}
