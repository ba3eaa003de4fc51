package org.nccl4j.topo.path;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.system.Node;

/**
 * Finds near devices: the CPU and the networks of a GPU, the GPU of a network. The nearest device
 * has the widest path, and among equal widths the shortest.
 */
public final class Locality {
  private final PathTable paths;
  private final TopoSettings settings;
  private final Known[][] known;

  Locality(PathTable paths, TopoSettings settings) {
    this.paths = paths;
    this.settings = settings;
    this.known = new Known[paths.machine().nodes().size()][NodeType.values().length];
  }

  /**
   * Nodes that are equally near.
   *
   * @param nodes the nodes
   * @param type how far they are
   */
  public record Nearest(List<Node> nodes, PathType type) {}

  /** Immutable, so that threads may race to keep it. */
  private record Known(int version, Nearest nearest) {}

  /** The nearest nodes of a type. */
  public Nearest nearest(Node from, NodeType type) {
    Known[] ofNode = known[from.ordinal()];
    Known found = ofNode[type.ordinal()];
    if (found == null || found.version != paths.version(from)) {
      found = new Known(paths.version(from), find(from, type));
      ofNode[type.ordinal()] = found;
    }
    return found.nearest;
  }

  private Nearest find(Node from, NodeType type) {
    PathType nearestType = PathType.DIS;
    float widest = 0;
    List<Node> nearest = new ArrayList<>();
    for (Node node : paths.machine().nodes(type)) {
      Path path = paths.path(from, node);
      boolean wider = path.bandwidth() > widest;
      boolean nearer = path.bandwidth() == widest && path.type().ordinal() < nearestType.ordinal();
      if (wider || nearer) {
        widest = path.bandwidth();
        nearestType = path.type();
        nearest.clear();
      }
      if (path.bandwidth() == widest && path.type() == nearestType && path != Path.NONE) {
        nearest.add(node);
      }
    }
    return new Nearest(List.copyOf(nearest), nearestType);
  }

  /** The NUMA node of a GPU. */
  public Node cpuOf(Node gpu) {
    Node closest = null;
    for (Node cpu : nearest(gpu, NodeType.CPU).nodes()) {
      if (closest == null || paths.path(gpu, cpu).hops() < paths.path(gpu, closest).hops()) {
        closest = cpu;
      }
    }
    if (closest == null) {
      throw new TopologyException(
          "no path can be made",
          gpu.toString(),
          "it reaches no CPU",
          "put its <pci> below a <cpu> in the topology file");
    }
    return closest;
  }

  /**
   * The network that a GPU uses for a channel; GPUs that share networks start at different ones.
   */
  public Node netOf(Node gpu, int channel) {
    List<Node> nets = nearest(gpu, NodeType.NET).nodes();
    if (nets.isEmpty()) {
      throw new TopologyException(
          "no network can be chosen",
          gpu.toString(),
          "it reaches no network",
          "add a <net> to the topology file, or use one machine");
    }
    int sharers = Math.max(1, nearest(nets.get(0), NodeType.GPU).nodes().size());
    int net = gpu.gpu().dev() % sharers;
    if (Integer.bitCount(nets.size()) == 1) {
      net = mirrored(net, nets.size());
    }
    net += channel % netsPerGpu(nets.size(), sharers);
    return nets.get(net % nets.size());
  }

  /** The networks that a GPU uses, in the order of channels, each once. */
  public List<Node> netsOf(Node gpu) {
    List<Node> nets = new ArrayList<>();
    for (int channel = 0; channel < TopoSettings.MAX_CHANNELS; channel++) {
      Node net = netOf(gpu, channel);
      if (!nets.isEmpty() && net == nets.get(0)) {
        break;
      }
      nets.add(net);
    }
    return nets;
  }

  /** The GPU that uses a network first, or null. */
  public Node gpuOf(Node net) {
    List<Node> gpus = nearest(net, NodeType.GPU).nodes();
    for (int channel = 0; channel < TopoSettings.MAX_CHANNELS; channel++) {
      for (Node gpu : gpus) {
        if (netOf(gpu, channel) == net) {
          return gpu;
        }
      }
    }
    return null;
  }

  private int netsPerGpu(int nets, int sharers) {
    int max = maxNets();
    if (max > 0) {
      return Math.min(max, nets);
    }
    boolean all = settings.get(TopoSettings.NCCL_NETDEVS_POLICY).equals("ALL");
    return all ? nets : (nets + sharers - 1) / sharers;
  }

  /** The most networks that one GPU may use: NCCL_NETDEVS_POLICY=MAX:n; 0 for no limit. */
  public int maxNets() {
    String policy = settings.get(TopoSettings.NCCL_NETDEVS_POLICY);
    return policy.startsWith("MAX:") ? Integer.parseInt(policy.substring(4)) : 0;
  }

  private static int mirrored(int value, int powerOfTwo) {
    int mirrored = 0;
    for (int bit = 1, mirror = powerOfTwo >> 1; bit < powerOfTwo; bit <<= 1, mirror >>= 1) {
      if ((value & bit) != 0) {
        mirrored |= mirror;
      }
    }
    return mirrored;
  }
}
