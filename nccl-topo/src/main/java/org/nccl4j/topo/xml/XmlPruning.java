package org.nccl4j.topo.xml;

import java.util.Set;

/**
 * Removes the branches that lead to nothing a communicator uses, such as bridges without a GPU or a
 * network below, and marks for removal that an element carries ({@code keep="0"}).
 */
public final class XmlPruning {
  private static final Set<String> BRANCHES = Set.of("cpu", "pci", "nic", "net");

  private XmlPruning() {}

  /** Prunes in place. */
  public static void prune(XmlElement system) {
    used(system);
  }

  private static boolean used(XmlElement element) {
    boolean kept = element.text("keep").map("1"::equals).orElse(isDevice(element));
    element.unset("keep");
    for (XmlElement child : element.children().toArray(XmlElement[]::new)) {
      boolean used = used(child);
      if (!used && BRANCHES.contains(child.name())) {
        element.remove(child);
      }
      kept |= used;
    }
    return kept;
  }

  private static boolean isDevice(XmlElement element) {
    return element.is("gpu") || element.is("net");
  }
}
