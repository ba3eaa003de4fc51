package org.nccl4j.topo.system;

import java.util.List;
import org.nccl4j.topo.LinkType;

/**
 * Last pass: within each node the link up the PCI tree goes to the end. With links sorted by
 * bandwidth before, the search visits NVLinks first, then the devices below, then the one above.
 */
final class LinkOrder {
  void apply(List<Node> cpus) {
    cpus.forEach(cpu -> order(cpu, null));
  }

  private void order(Node node, Node up) {
    if (up != null) {
      moveToEnd(node.mutableLinks(), up);
    }
    for (Link link : node.links()) {
      if (link.type() == LinkType.PCI && link.to() != up) {
        order(link.to(), node);
      }
    }
  }

  private static void moveToEnd(List<Link> links, Node up) {
    for (int i = 0; i < links.size(); i++) {
      if (links.get(i).to() == up) {
        links.add(links.remove(i));
        return;
      }
    }
  }
}
