package org.nccl4j.topo.search;

import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.path.Path;
import org.nccl4j.topo.system.Link;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;
import org.nccl4j.topo.system.NodeAttributes;

/**
 * The remaining bandwidth of every link and network. All searches of a machine share it, in order:
 * taking and giving back rounds to 1/1000, and later searches see the rounding error. Owned by the
 * thread that searches.
 */
final class Capacity {
  private static final int AMPERE = 80;

  private final float[] links;
  private final Link[] reverse;
  private final float[] nets;

  Capacity(Machine machine) {
    links = new float[machine.linkCount()];
    reverse = new Link[machine.linkCount()];
    for (Node node : machine.nodes()) {
      for (Link link : node.links()) {
        links[link.ordinal()] = link.bandwidth();
        reverse[link.ordinal()] = reverse(node, link);
      }
    }
    nets = new float[machine.nets().size()];
    for (int n = 0; n < nets.length; n++) {
      nets[n] = machine.nets().get(n).net().bandwidth();
    }
  }

  private static Link reverse(Node node, Link link) {
    for (Link back : link.to().links()) {
      if (back.leads(node, link.type())) {
        return back;
      }
    }
    return null;
  }

  float of(Link link) {
    return links[link.ordinal()];
  }

  float ofNet(int net) {
    return nets[net];
  }

  void changeNet(int net, int by) {
    nets[net] += by;
  }

  /** Takes bandwidth along a path; takes none and is false if a link has not enough. */
  boolean take(Path path, Node start, float bandwidth) {
    int taken = move(path, start, path.hops(), bandwidth);
    if (taken < path.hops()) {
      move(path, start, taken, -bandwidth);
      return false;
    }
    return true;
  }

  private int move(Path path, Node start, int hops, float bandwidth) {
    float overPci = crossesIntelRoot(path, start) ? bandwidth * 6 / 5 : bandwidth;
    for (int hop = 0; hop < hops; hop++) {
      Link link = path.link(hop);
      float forward = link.type() == LinkType.PCI ? overPci : bandwidth;
      float backward = backward(link, start, forward);
      Link back = backward == 0 ? null : reverse[link.ordinal()];
      if (of(link) < forward || (back != null && of(back) < backward)) {
        return hop;
      }
      subtract(link, forward);
      if (back != null) {
        subtract(back, backward);
      }
    }
    return hops;
  }

  /** Intel root complexes cut GPU-to-GPU traffic into small packets, which costs a fifth more. */
  private static boolean crossesIntelRoot(Path path, Node start) {
    if (path.type() != PathType.PHB || start.type() != NodeType.GPU) {
      return false;
    }
    for (int hop = 0; hop < path.hops(); hop++) {
      Node node = path.node(hop);
      if (node.type() == NodeType.CPU && node.cpu().isX86(NodeAttributes.Vendor.INTEL)) {
        return true;
      }
    }
    return false;
  }

  /** Returns the bandwidth that the traffic takes in the other direction. */
  private static float backward(Link link, Node start, float forward) {
    float backward = 0;
    Node to = link.to();
    if (to.type() == NodeType.DEV && to.device().sm() < AMPERE && start.type() != NodeType.GPU) {
      backward += forward / 8;
    }
    if (to.type() == NodeType.CPU
        && to.cpu().arch() == NodeAttributes.Arch.POWER
        && link.type() == LinkType.NVL) {
      backward += forward;
    }
    return backward;
  }

  private void subtract(Link link, float bandwidth) {
    float rest = (links[link.ordinal()] - bandwidth) * 1000;
    // C's roundf: halves away from zero.
    double rounded = Math.copySign(Math.floor(Math.abs((double) rest) + 0.5), rest);
    links[link.ordinal()] = (float) rounded / 1000;
  }
}
