package org.nccl4j.topo.system;

import org.nccl4j.topo.LinkType;

/** One direction of a link between two nodes. Not changed after the machine is built. */
public final class Link {
  private final LinkType type;
  private final Node to;
  private final float bandwidth;
  private int ordinal;

  Link(LinkType type, Node to, float bandwidth) {
    this.type = type;
    this.to = to;
    this.bandwidth = bandwidth;
  }

  /** Returns the link's type. */
  public LinkType type() {
    return type;
  }

  /** Returns the node that the link leads to. */
  public Node to() {
    return to;
  }

  /** In GB/s. */
  public float bandwidth() {
    return bandwidth;
  }

  /** Returns the link's place among all links of the machine. */
  public int ordinal() {
    return ordinal;
  }

  /** True if it leads to that node and is of that type. */
  public boolean leads(Node where, LinkType what) {
    return to == where && type == what;
  }

  void place(int newOrdinal) {
    ordinal = newOrdinal;
  }

  Link redirected(Node elsewhere) {
    return new Link(type, elsewhere, bandwidth);
  }
}
