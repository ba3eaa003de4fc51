package org.nccl4j.api.init.topology;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.nccl4j.topo.xml.XmlElement;
import org.nccl4j.topo.xml.XmlFusion;

/**
 * The hosts of a clique as one machine: all devices of each, with the host's number in the clique
 * at each CPU. NVLinks to a switch lead to the same switch on all hosts, so GPUs of all hosts are
 * neighbours, while NICs belong to their host.
 */
final class CliqueTopology {
  private static final String HOST = "host_hash";

  private CliqueTopology() {}

  /** One system of those of some hosts, with ranks numbered over all of them. */
  static XmlElement fuse(List<XmlElement> hosts) {
    if (hosts.size() == 1) {
      return hosts.get(0);
    }
    List<XmlElement> numbered = new ArrayList<>();
    for (int host = 0; host < hosts.size(); host++) {
      XmlElement system = hosts.get(host).copy();
      for (XmlElement cpu : system.children()) {
        cpu.set(HOST, "0x" + Integer.toHexString(host + 1));
      }
      numbered.add(system);
    }
    return XmlFusion.fuse(numbered);
  }

  /** Removes hosts on which no GPU with a rank is left, if there are others. */
  static void removeUnused(XmlElement system) {
    Set<String> used = new HashSet<>();
    for (XmlElement cpu : system.children()) {
      if (hasRank(cpu)) {
        used.add(cpu.text(HOST).orElse(""));
      }
    }
    for (XmlElement cpu : List.copyOf(system.children())) {
      if (!used.contains(cpu.text(HOST).orElse(""))) {
        system.remove(cpu);
      }
    }
  }

  private static boolean hasRank(XmlElement element) {
    return element.children().stream()
        .anyMatch(child -> (child.is("gpu") && child.text("rank").isPresent()) || hasRank(child));
  }
}
