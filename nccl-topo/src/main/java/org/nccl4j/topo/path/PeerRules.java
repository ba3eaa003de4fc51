package org.nccl4j.topo.path;

import java.util.Optional;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.system.Machine;
import org.nccl4j.topo.system.Node;
import org.nccl4j.topo.system.NodeAttributes;

/** Decides whether two GPUs exchange data directly, through shared memory, or over the network. */
public final class PeerRules {
  private static final int AMPERE = 80;
  private static final int FORWARDED_HOPS = 4;

  private final PathTable paths;
  private final TopoSettings settings;
  private final PeerStatus driver;
  private final PathType level;
  private final NetSpeed[] netSpeeds;

  /** By both GPUs' indices, as found before paths were led around what is forbidden. */
  private final Access[][] found;

  /** Immutable, so that threads may race to keep it. */
  private record NetSpeed(int version, float speed) {}

  PeerRules(PathTable paths, TopoSettings settings, PeerStatus driver) {
    this.paths = paths;
    this.settings = settings;
    this.driver = driver;
    this.netSpeeds = new NetSpeed[paths.machine().nodes().size()];
    int gpus = paths.machine().gpus().size();
    this.found = new Access[gpus][gpus];
    this.level = settings.p2pLevel().orElse(defaultLevel(paths.machine()));
  }

  /**
   * The access between two GPUs.
   *
   * @param direct true if peer-to-peer is used
   * @param read true if the receiver reads, false if the sender writes
   * @param through the GPU in between, if there is one
   */
  public record Answer(boolean direct, boolean read, Optional<Node> through) {}

  /**
   * The links between two GPUs.
   *
   * @param path the shortest, whether it may be used or not
   * @param direct whether peer-to-peer may use it, by the level and the driver
   */
  public record Access(PathType path, boolean direct) {}

  /** Returns the access between two GPUs of the machine. */
  public Access access(Node gpu, Node peer) {
    return found[gpu.index()][peer.index()];
  }

  /** Decides as {@link #check}, and keeps the answer for {@link #access}. */
  boolean find(Node gpu, Node peer) {
    boolean direct = check(gpu, peer).direct();
    found[gpu.index()][peer.index()] = new Access(paths.path(gpu, peer).type(), direct);
    return direct;
  }

  /** The longest path over which peers exchange data directly. */
  public PathType level() {
    return level;
  }

  private static PathType defaultLevel(Machine machine) {
    // Peer-to-peer through a CPU is often slow or broken. It works well on small AMD machines.
    boolean smallAmd =
        machine.cpu().isX86(NodeAttributes.Vendor.AMD) && machine.devices().size() <= 2;
    return smallAmd ? PathType.SYS : PathType.PXB;
  }

  /** Decides whether and how two GPUs exchange data directly. */
  public Answer check(Node gpu, Node peer) {
    Path path = paths.path(gpu, peer);
    Optional<Node> through = forwarder(path);
    boolean direct = path.type().within(level) && driverAllows(gpu, peer, through, path.type());
    boolean read =
        path.type() == PathType.NVL && gpu.gpu().sm() == AMPERE && peer.gpu().sm() == AMPERE;
    return new Answer(direct, read, through);
  }

  private Optional<Node> forwarder(Path path) {
    if (path.hops() != FORWARDED_HOPS || path.node(1).type() != NodeType.DEV) {
      return Optional.empty();
    }
    Node device = path.node(1);
    return paths.machine().gpuOfDevice(device.host(), device.device().dev());
  }

  private boolean driverAllows(Node gpu, Node peer, Optional<Node> through, PathType type) {
    int ignore = settings.get(TopoSettings.NCCL_IGNORE_DISABLED_P2P);
    boolean asked =
        ignore != 2 && gpu.parentDevice() != peer.parentDevice() && gpu.host() == peer.host();
    if (!asked) {
      return true;
    }
    Node middle = through.orElse(gpu);
    boolean first = through.isEmpty() || driverAllows(gpu, middle);
    boolean allowed = first && driverAllows(middle, peer);
    if (!allowed && ignore == 0 && type.within(PathType.NVB)) {
      throw new TopologyException(
          "peer access is off between NVLink peers",
          gpu + " and " + peer,
          "the driver does not allow it, which NVLink peers should never see",
          "check the NVLinks and the fabric manager, or set NCCL_IGNORE_DISABLED_P2P=1");
    }
    return allowed;
  }

  private boolean driverAllows(Node gpu, Node peer) {
    return driver.allowed(gpu.gpu().dev(), peer.gpu().dev()) && !gpu.gpu().isForbidden(peer);
  }

  /** True if the two have any transport other than the network. */
  boolean connected(Node gpu, Node peer) {
    Answer answer = check(gpu, peer);
    if (answer.direct()) {
      boolean copies = settings.get(TopoSettings.NCCL_P2P_USE_CUDA_MEMCPY);
      boolean works = answer.through().isPresent() ? !copies : !netIsFaster(gpu, peer);
      if (works) {
        return true;
      }
    }
    return !settings.shmDisabled() && gpu.host() == peer.host() && !netIsFaster(gpu, peer);
  }

  /** True if both reach a network faster than each other, near enough to be sure of it. */
  private boolean netIsFaster(Node gpu, Node peer) {
    if (settings.get(TopoSettings.NCCL_NET_DISABLE_INTRA)) {
      return false;
    }
    float between = paths.path(gpu, peer).bandwidth();
    return netSpeed(gpu) > between && netSpeed(peer) > between;
  }

  private float netSpeed(Node gpu) {
    NetSpeed known = netSpeeds[gpu.ordinal()];
    if (known == null || known.version != paths.version(gpu)) {
      known = new NetSpeed(paths.version(gpu), findNetSpeed(gpu));
      netSpeeds[gpu.ordinal()] = known;
    }
    return known.speed;
  }

  private float findNetSpeed(Node gpu) {
    float fastest = 0;
    for (Node net : paths.machine().nets()) {
      Path path = paths.path(gpu, net);
      if (path.type().within(PathType.PXB)) {
        fastest = Math.max(fastest, path.bandwidth());
      }
    }
    return fastest;
  }
}
