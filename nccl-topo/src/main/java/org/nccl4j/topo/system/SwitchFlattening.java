package org.nccl4j.topo.system;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.topo.NodeType;

/**
 * Removes the lower level of Broadcom switches that appear as two levels although they have full
 * bandwidth between all ports; otherwise paths within the switch would look longer than they are.
 */
final class SwitchFlattening {
  private static final long FAMILY_MASK = 0xffff_ffff_ffff_f000L;
  private static final long GEN4 = 0x1000_c010_1000_a000L;
  private static final long GEN5 = 0x1000_c030_1000_0000L;
  private static final long GEN5_SUB = 0x1000_c030_1000_1000L;
  private static final long DONE = 0xffff;

  private final List<Node> switches;

  SwitchFlattening(MachineNodes machine) {
    this.switches = machine.list(NodeType.PCI);
  }

  void flatten() {
    int at = 0;
    while (at < switches.size()) {
      Node node = switches.get(at);
      int generation = generation(node, GEN5);
      if (generation == 0) {
        at++;
        continue;
      }
      absorb(node, generation);
      node.attributes(new NodeAttributes.Pci(node.pci().id() | DONE));
      at = 0;
    }
  }

  private void absorb(Node top, int generation) {
    List<Node> lower = new ArrayList<>();
    top.mutableLinks()
        .removeIf(
            link -> {
              boolean sub =
                  link.to().type() == NodeType.PCI && generation(link.to(), GEN5_SUB) == generation;
              if (sub) {
                lower.add(link.to());
              }
              return sub;
            });
    for (Node sub : lower) {
      for (Link link : sub.links()) {
        if (link.to() != top) {
          top.mutableLinks().add(link);
          redirect(link.to(), sub, top);
        }
      }
      switches.remove(sub);
    }
  }

  /** The first link of a node that led to the lower level leads to the upper. */
  private static void redirect(Node node, Node from, Node to) {
    List<Link> links = node.mutableLinks();
    for (int i = 0; i < links.size(); i++) {
      if (links.get(i).to() == from) {
        links.set(i, links.get(i).redirected(to));
        return;
      }
    }
  }

  private static int generation(Node node, long gen5) {
    long family = node.pci().id() & FAMILY_MASK;
    if (family == GEN4) {
      return 4;
    }
    return family == gen5 ? 5 : 0;
  }
}
