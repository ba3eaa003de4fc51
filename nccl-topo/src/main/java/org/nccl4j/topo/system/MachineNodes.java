package org.nccl4j.topo.system;

import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.topo.CNumber;
import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.xml.XmlElement;

/** The nodes of a machine graph that is being built. Used by one thread, once. */
final class MachineNodes {
  /** Most nodes of one type. */
  private static final int MAX_NODES = 4096;

  private final Map<NodeType, ArrayList<Node>> nodes = new EnumMap<>(NodeType.class);
  private final List<Long> hostHashes = new ArrayList<>();
  private final boolean splitPartitions;
  private final Assumptions assumptions;

  /**
   * No nodes.
   *
   * @param splitPartitions true if partitions of a GPU count as GPUs
   */
  MachineNodes(boolean splitPartitions, Assumptions assumptions) {
    this.splitPartitions = splitPartitions;
    this.assumptions = assumptions;
    for (NodeType type : NodeType.values()) {
      nodes.put(type, new ArrayList<>());
    }
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

  Node create(XmlElement from, NodeType type, int host, long id, NodeAttributes attributes) {
    if (list(type).size() == MAX_NODES) {
      throw from.error("is " + type + " number " + (MAX_NODES + 1), "split the machine");
    }
    Node node = new Node(type, host, id, attributes);
    list(type).add(node);
    return node;
  }

  static void connect(Node a, Node b, LinkType type, float bandwidth) {
    a.connect(b, type, bandwidth);
    b.connect(a, type, bandwidth);
  }

  /** Returns the graph of these nodes. */
  Machine machine() {
    return new Machine(nodes, hostHashes.size());
  }
}
