package org.nccl4j.topo.path;

import java.util.Optional;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.system.Node;

/** Decides whether a NIC may access a GPU's memory directly (GPUDirect RDMA). */
public final class GdrRules {
  private static final int AMPERE = 80;

  private final PathTable paths;
  private final TopoSettings settings;
  private final PathType level;

  GdrRules(PathTable paths, TopoSettings settings) {
    this.paths = paths;
    this.settings = settings;
    this.level = settings.gdrLevel();
  }

  /** The longest path over which it is used. */
  public PathType level() {
    return level;
  }

  /**
   * True if it is used.
   *
   * @param gpu whose memory
   * @param net which network
   * @param read whether the card reads (to send), rather than writes
   */
  public boolean allowed(Node gpu, Node net, boolean read) {
    if (!net.net().gdr() || !gpu.gpu().gdr()) {
      return false;
    }
    if (gpu.gpu().partition() >= 0 && !settings.get(TopoSettings.NCCL_NET_GDR_MLOPART)) {
      return false;
    }
    if (read && !readAllowed(gpu)) {
      return false;
    }
    Path path = paths.path(gpu, net);
    PathType distance =
        path.type() == PathType.PXN ? paths.path(proxy(path, gpu), net).type() : path.type();
    return distance.within(level);
  }

  private boolean readAllowed(Node gpu) {
    Optional<Boolean> wanted = settings.find(TopoSettings.NCCL_NET_GDR_READ);
    if (wanted.isPresent()) {
      return wanted.get();
    }
    if (gpu.gpu().sm() >= AMPERE) {
      return true;
    }
    // Older GPUs read slowly over PCIe; worth it only if PCIe has nothing else to carry.
    if (paths.machine().gpus().size() == 1) {
      return true;
    }
    return paths.machine().gpus().stream()
        .anyMatch(peer -> peer != gpu && paths.path(gpu, peer).type() == PathType.NVL);
  }

  /** The GPU that a path to a network leads through, if it does, else the GPU itself. */
  public Node proxy(Path path, Node gpu) {
    if (path.type() != PathType.PXN) {
      return gpu;
    }
    if (settings.matchesNccl()) {
      checkAsNccl(path, gpu);
    }
    int hop = 1;
    while (hop < path.hops() - 1 && path.node(hop).type() != NodeType.DEV) {
      hop++;
    }
    Node device = path.node(hop);
    if (device.type() != NodeType.DEV) {
      return gpu;
    }
    return paths.machine().gpuOfDevice(device.host(), device.device().dev()).orElse(gpu);
  }

  /** NCCL looks for the GPU behind NVSwitches only, and gives up where an NVLink passes a CPU. */
  private static void checkAsNccl(Path path, Node gpu) {
    int hop = 1;
    while (hop < path.hops() - 1 && path.node(hop).type() == NodeType.NVS) {
      hop++;
    }
    if (path.node(hop).type() != NodeType.DEV) {
      throw new TopologyException(
          "no relaying GPU can be found",
          gpu.toString(),
          "its NVLink passes " + path.node(hop) + ", where NCCL gives up",
          "unset NCCL4J_TOPO_COMPAT, or set NCCL_PXN_DISABLE=1");
    }
  }
}
