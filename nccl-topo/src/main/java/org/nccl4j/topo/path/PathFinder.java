package org.nccl4j.topo.path;

import java.util.LinkedHashSet;
import java.util.Set;
import org.nccl4j.topo.LinkType;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.system.Link;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;

/**
 * The best path from every node to one, found breadth first from its end. The best path has the
 * nearest type, then the greatest width, then the fewest hops. GPUs do not forward, except one GPU
 * between two NVLinks.
 */
final class PathFinder {
  private final Machine machine;
  private final boolean throughGpus;

  PathFinder(Machine machine, boolean throughGpus) {
    this.machine = machine;
    this.throughGpus = throughGpus;
  }

  /** The paths to the target, by the ordinal of the node they start from. */
  Path[] pathsTo(Node target) {
    return pathsTo(target, new Path[machine.nodes().size()]);
  }

  /** The better ones of paths that are known, and of those that end at the target. */
  Path[] pathsTo(Node target, Path[] known) {
    Path[] best = known.clone();
    best[target.ordinal()] = Path.SELF;
    Set<Node> frontier = Set.of(target);
    while (!frontier.isEmpty()) {
      Set<Node> next = new LinkedHashSet<>();
      for (Node node : frontier) {
        for (Link link : node.links()) {
          if (mayPass(target, node, link, best[node.ordinal()])
              && improve(target, node, link, best)) {
            next.add(link.to());
          }
        }
      }
      frontier = next;
    }
    return best;
  }

  /** Returns the most links of a path before it enters the one GPU that may forward. */
  private static int reach(Node target) {
    return target.type() == NodeType.GPU ? 2 : 1;
  }

  private boolean mayPass(Node target, Node node, Link link, Path path) {
    Node own = target.type() == NodeType.GPU ? target.parentDevice() : target;
    if (node == own || node.type() != NodeType.DEV) {
      return true;
    }
    boolean toItsRank = link.type() == LinkType.LOC && link.to().type() == NodeType.GPU;
    boolean forwards =
        throughGpus
            && link.type() == LinkType.NVL
            && link.to().type() == NodeType.DEV
            && path.hops() <= reach(target);
    return toItsRank || forwards;
  }

  private boolean improve(Node target, Node node, Link link, Path[] best) {
    Path path = best[node.ordinal()];
    PathType type = path.type().max(typeOver(target, node, link, path));
    float bandwidth = Math.min(path.bandwidth(), link.bandwidth());
    Path known = best[link.to().ordinal()];
    if (known != null && !better(type, bandwidth, path.hops() + 1, known)) {
      return false;
    }
    best[link.to().ordinal()] = path.after(reverse(node, link), type, bandwidth);
    return true;
  }

  private static boolean better(PathType type, float bandwidth, int hops, Path known) {
    if (type != known.type()) {
      return type.within(known.type());
    }
    return bandwidth > known.bandwidth() || (bandwidth == known.bandwidth() && hops < known.hops());
  }

  private static PathType typeOver(Node target, Node node, Link link, Path path) {
    boolean cpu = node.type() == NodeType.CPU || link.to().type() == NodeType.CPU;
    return switch (link.type()) {
      // Only the path from the card to the GPU counts, not the network side of the card.
      case LOC, NET -> bothSwitches(node, link) ? PathType.PXB : PathType.LOC;
      case NVL -> {
        boolean leavesForwarder =
            node.type() == NodeType.DEV
                && path.type() == PathType.NVL
                && path.hops() == reach(target);
        yield leavesForwarder ? PathType.NVB : PathType.NVL;
      }
      case C2C -> PathType.C2C;
      case PCI -> cpu ? PathType.PHB : bothSwitches(node, link) ? PathType.PXB : PathType.PIX;
      case SYS -> PathType.SYS;
    };
  }

  private static boolean bothSwitches(Node node, Link link) {
    return node.type() == NodeType.PCI && link.to().type() == NodeType.PCI;
  }

  /** Paths are followed from their start, the search went from their end. */
  private static Link reverse(Node node, Link link) {
    for (Link back : link.to().links()) {
      if (back.leads(node, link.type())) {
        return back;
      }
    }
    throw new TopologyException(
        "no path can be made",
        link.to().toString(),
        node + " has a " + link.type() + " link to it, but it has none back",
        "write the link on both sides in the topology file");
  }
}
