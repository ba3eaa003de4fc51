package org.nccl4j.topo.detect;

import java.util.List;

/** Names of network interfaces that lead to containers and guests of this host, not to others. */
public final class VirtualInterfaces {
  private static final List<String> PREFIXES = List.of("docker", "veth", "virbr", "br-", "cni");

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
