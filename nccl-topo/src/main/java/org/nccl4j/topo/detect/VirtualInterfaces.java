package org.nccl4j.topo.detect;

import java.util.List;

/**
 * Names of network interfaces that lead to containers, guests and cards of this host, not to other
 * hosts. Such an interface often has the same address on several hosts.
 */
public final class VirtualInterfaces {
  private static final List<String> PREFIXES =
      List.of(
          "docker", "podman", "lxc", "lxd", "veth", "virbr", "vboxnet", "vmnet", "br-", "cni",
          "tmfifo");

  private VirtualInterfaces() {}

  /** True if an interface is named as one of them, such as "docker0". */
  public static boolean include(String name) {
    for (String prefix : PREFIXES) {
      if (name.startsWith(prefix)) {
        return true;
      }
    }
    return false;
  }
}
