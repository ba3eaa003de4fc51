package org.nccl4j.topo.system;

import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.xml.XmlElement;

/**
 * Builds the machine graph from a {@code <system>} element, in passes: the PCI trees, the links
 * that cross them (NVLink, C2C, links between switches), flattening, NUMA, and the order of links.
 */
public final class MachineBuilder {
  private MachineBuilder() {}

  /**
   * The graph of a machine, perhaps without GPUs.
   *
   * @param system the top element of a topology file, with ranks on its GPUs
   * @param settings NCCL_TOPO_SPLIT_MLOPART is looked at
   * @param assumptions what to believe where the file says nothing
   */
  public static Machine build(XmlElement system, TopoSettings settings, Assumptions assumptions) {
    MachineNodes nodes =
        new MachineNodes(settings.get(TopoSettings.NCCL_TOPO_SPLIT_MLOPART), assumptions);
    PciTrees trees = new PciTrees(nodes);
    for (XmlElement cpu : system.children()) {
      trees.addCpu(cpu);
    }
    new CrossLinks(nodes).add(system);
    new SwitchFlattening(nodes).flatten();
    connectCpus(nodes);
    new LinkOrder().apply(nodes.list(NodeType.CPU));
    return nodes.machine();
  }

  private static void connectCpus(MachineNodes nodes) {
    for (Node from : nodes.list(NodeType.CPU)) {
      for (Node to : nodes.list(NodeType.CPU)) {
        if (from != to && from.host() == to.host()) {
          from.connect(to, LinkType.SYS, Bandwidths.betweenCpus(from.cpu()));
        }
      }
    }
  }
}
