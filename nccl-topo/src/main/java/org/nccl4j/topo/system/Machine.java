package org.nccl4j.topo.system;

import java.util.ArrayList;
import java.util.Collections;
import java.util.EnumMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.function.Predicate;
import org.nccl4j.topo.NodeType;

/** The machine, or the NVLink domain, as a graph. Immutable; safe from any thread. */
public final class Machine {
  private final Map<NodeType, List<Node>> byType = new EnumMap<>(NodeType.class);
  private final List<Node> all = new ArrayList<>();
  private final int hosts;
  private final int links;

  Machine(Map<NodeType, ? extends List<Node>> nodes, int hosts) {
    this.hosts = hosts;
    int nLinks = 0;
    for (NodeType type : NodeType.values()) {
      List<Node> built = nodes.get(type);
      List<Node> list = built == null ? List.of() : List.copyOf(built);
      byType.put(type, list);
      for (int i = 0; i < list.size(); i++) {
        list.get(i).place(i, all.size());
        all.add(list.get(i));
        for (Link link : list.get(i).links()) {
          link.place(nLinks++);
        }
      }
    }
    links = nLinks;
  }

  /** The nodes of a type, in the order of the file. */
  public List<Node> nodes(NodeType type) {
    return byType.get(type);
  }

  /** All nodes, by type and then in the order of the file. */
  public List<Node> nodes() {
    return Collections.unmodifiableList(all);
  }

  /** The GPUs. */
  public List<Node> gpus() {
    return nodes(NodeType.GPU);
  }

  /** The networks. */
  public List<Node> nets() {
    return nodes(NodeType.NET);
  }

  /** The NUMA nodes. */
  public List<Node> cpus() {
    return nodes(NodeType.CPU);
  }

  /** The GPUs as devices, including those whose ranks were trimmed. */
  public List<Node> devices() {
    return nodes(NodeType.DEV);
  }

  /** The NVSwitches: one node or none. */
  public List<Node> nvSwitches() {
    return nodes(NodeType.NVS);
  }

  /** Returns the number of hosts. An NVLink domain of several machines has more than one. */
  public int hosts() {
    return hosts;
  }

  /** Returns the number of link directions. Each {@link Link#ordinal()} is smaller. */
  public int linkCount() {
    return links;
  }

  /** The GPU of a rank. */
  public Optional<Node> gpuOfRank(int rank) {
    return gpus().stream().filter(gpu -> gpu.gpu().rank() == rank).findFirst();
  }

  /** The GPU of a device number on a host; the first where ranks share one. */
  public Optional<Node> gpuOfDevice(int host, int dev) {
    return gpus().stream().filter(gpu -> gpu.host() == host && gpu.gpu().dev() == dev).findFirst();
  }

  /**
   * The device of a bus address of the first host.
   *
   * @param busId such as 0000:1b:00.0
   */
  public Optional<Node> deviceAt(String busId) {
    long id = Node.local(PciIds.bus(busId));
    return devices().stream().filter(dev -> dev.host() == 0 && dev.id() == id).findFirst();
  }

  /** The least compute capability of its devices. */
  public int minSm() {
    return devices().stream().mapToInt(node -> node.device().sm()).min().orElse(0);
  }

  /** The CPU that stands for all where rules ask for "the" CPU. */
  public NodeAttributes.Cpu cpu() {
    return cpus().get(0).cpu();
  }

  /** A copy with some GPUs only. Their devices stay: links may lead through them. */
  public Machine withGpus(Predicate<Node> kept) {
    Map<Node, Node> copies = new IdentityHashMap<>();
    Map<NodeType, List<Node>> nodes = new EnumMap<>(NodeType.class);
    for (Node node : all) {
      if (node.type() != NodeType.GPU || kept.test(node)) {
        Node copy = new Node(node.type(), node.host(), node.id(), node.attributes());
        copies.put(node, copy);
        nodes.computeIfAbsent(node.type(), type -> new ArrayList<>()).add(copy);
      }
    }
    copies.forEach(
        (node, copy) -> {
          for (Link link : node.links()) {
            Node to = copies.get(link.to());
            if (to != null) {
              copy.mutableLinks().add(link.redirected(to));
            }
          }
        });
    return new Machine(nodes, hosts);
  }
}
