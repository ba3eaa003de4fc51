package org.nccl4j.topo.system;

import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.topo.CNumber;
import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.xml.XmlElement;

/**
 * Builds the machine graph from a {@code <system>} element, in passes: the PCI trees, the links
 * that cross them (NVLink, C2C, links between switches), flattening, NUMA, and the order of links.
 * Used by one thread, once.
 */
public final class MachineBuilder {
  /** Most nodes of one type. */
  private static final int MAX_NODES = 4096;

  private final Map<NodeType, ArrayList<Node>> nodes = new EnumMap<>(NodeType.class);
  private final List<Long> hostHashes = new ArrayList<>();
  private final boolean splitPartitions;
  private final Assumptions assumptions;

  private MachineBuilder(TopoSettings settings, Assumptions assumptions) {
    this.splitPartitions = settings.number("NCCL_TOPO_SPLIT_MLOPART", 1) != 0;
    this.assumptions = assumptions;
    for (NodeType type : NodeType.values()) {
      nodes.put(type, new ArrayList<>());
    }
  }

  /**
   * The graph of a machine.
   *
   * @param system the top element of a topology file, with ranks on its GPUs
   * @param settings NCCL_TOPO_SPLIT_MLOPART is looked at
   * @param assumptions what to believe where the file says nothing
   */
  public static Machine build(XmlElement system, TopoSettings settings, Assumptions assumptions) {
    MachineBuilder builder = new MachineBuilder(settings, assumptions);
    PciTrees trees = new PciTrees(builder);
    for (XmlElement cpu : system.children()) {
      trees.addCpu(cpu);
    }
    if (builder.list(NodeType.GPU).isEmpty()) {
      throw system.error(
          "has no <gpu> with a rank", "Add a <gpu> with dev, sm and rank to a <pci>");
    }
    new CrossLinks(builder).add(system);
    new SwitchFlattening(builder).flatten();
    builder.connectCpus();
    new LinkOrder().apply(builder.list(NodeType.CPU));
    return new Machine(builder.nodes, builder.hostHashes.size());
  }

  List<Node> list(NodeType type) {
    return nodes.get(type);
  }

  boolean splitsPartitions() {
    return splitPartitions;
  }

  Assumptions assumptions() {
    return assumptions;
  }

  /** The number of the host that a CPU is in; hosts are numbered as they come. */
  int host(XmlElement cpu) {
    long hash = cpu.text("host_hash").map(CNumber::hex).orElse(0L);
    int host = hostHashes.indexOf(hash);
    if (host < 0) {
      hostHashes.add(hash);
      host = hostHashes.size() - 1;
    }
    return host;
  }

  /** The node of that type and number, or null. */
  Node find(NodeType type, int host, long id) {
    for (Node node : list(type)) {
      if (node.host() == host && node.id() == Node.local(id)) {
        return node;
      }
    }
    return null;
  }

  Node create(XmlElement from, NodeType type, int host, long id, Facts facts) {
    if (list(type).size() == MAX_NODES) {
      throw from.error("is " + type + " number " + (MAX_NODES + 1), "Split the machine");
    }
    Node node = new Node(type, host, id, facts);
    list(type).add(node);
    return node;
  }

  static void connect(Node a, Node b, LinkType type, float bandwidth) {
    a.connect(b, type, bandwidth);
    b.connect(a, type, bandwidth);
  }

  private void connectCpus() {
    for (Node from : list(NodeType.CPU)) {
      for (Node to : list(NodeType.CPU)) {
        if (from != to && from.host() == to.host()) {
          from.connect(to, LinkType.SYS, Bandwidths.betweenCpus(from.cpu()));
        }
      }
    }
  }
}
