package org.nccl4j.topo.system;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.NodeType;

/**
 * A node of the machine graph. Built by {@link MachineBuilder} and not changed after; then safe
 * from any thread.
 */
public final class Node {
  private static final long LOCAL_MASK = 0x00ff_ffff_ffff_ffffL;

  private final NodeType type;
  private final int host;
  private final long id;
  private final ArrayList<Link> links = new ArrayList<>();
  private NodeAttributes attributes;
  private int index;
  private int ordinal;

  Node(NodeType type, int host, long id, NodeAttributes attributes) {
    this.type = type;
    this.host = host;
    this.id = local(id);
    this.attributes = attributes;
  }

  /** The part of a number that is unique on a host; NUMA node -1 becomes a large number. */
  static long local(long id) {
    return id & LOCAL_MASK;
  }

  /** Returns the node's type. */
  public NodeType type() {
    return type;
  }

  /** The host it is in: 0 unless an NVLink domain spans several. */
  public int host() {
    return host;
  }

  /** Returns the node's number on the host: the bus address, NUMA node, or network device. */
  public long id() {
    return id;
  }

  /** Returns the node's place among the nodes of its type. */
  public int index() {
    return index;
  }

  /** Returns the node's place among all nodes of the machine. */
  public int ordinal() {
    return ordinal;
  }

  /** Returns the node's links. The order decides ties in the search, hence the channel order. */
  public List<Link> links() {
    return Collections.unmodifiableList(links);
  }

  /** Returns the known attributes of the node. */
  public NodeAttributes attributes() {
    return attributes;
  }

  /** Attributes of a GPU. */
  public NodeAttributes.Gpu gpu() {
    return (NodeAttributes.Gpu) attributes;
  }

  /** Attributes of a device. */
  public NodeAttributes.Device device() {
    return (NodeAttributes.Device) attributes;
  }

  /** Attributes of a NUMA node. */
  public NodeAttributes.Cpu cpu() {
    return (NodeAttributes.Cpu) attributes;
  }

  /** Attributes of a network. */
  public NodeAttributes.Net net() {
    return (NodeAttributes.Net) attributes;
  }

  /** Attributes of a PCIe switch. */
  public NodeAttributes.Pci pci() {
    return (NodeAttributes.Pci) attributes;
  }

  /** The device that a GPU's rank is on. */
  public Node parentDevice() {
    return links.get(0).to();
  }

  /** Host and number in base 16, as NCCL prints them. */
  public String key() {
    return Integer.toHexString(host) + "-" + Long.toHexString(id);
  }

  /** Type, host and number, as NCCL prints them. */
  @Override
  public String toString() {
    return type + "/" + key();
  }

  void place(int newIndex, int newOrdinal) {
    index = newIndex;
    ordinal = newOrdinal;
  }

  void attributes(NodeAttributes changed) {
    attributes = changed;
  }

  ArrayList<Link> mutableLinks() {
    return links;
  }

  /** Adds bandwidth towards a node; links stay sorted, fastest first, equal ones by age. */
  void connect(Node to, LinkType linkType, float bandwidth) {
    int at = 0;
    while (at < links.size() && !links.get(at).leads(to, linkType)) {
      at++;
    }
    float before = at < links.size() ? links.remove(at).bandwidth() : 0;
    Link link = new Link(linkType, to, before + bandwidth);
    while (at > 0 && links.get(at - 1).bandwidth() < link.bandwidth()) {
      at--;
    }
    links.add(at, link);
  }
}
