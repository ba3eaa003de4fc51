package org.nccl4j.api.init.topology;

import java.util.Optional;
import java.util.function.Predicate;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.settings.TopologySettings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.spi.Support;
import org.nccl4j.device.Device;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.cuda.nvml.Nvml;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.cluster.CommTopology;
import org.nccl4j.topo.path.PeerRules;

/**
 * Distances from a rank's GPU to the other ranks' GPUs of its machine.
 *
 * @param topology of all ranks; empty where it is not known
 * @param level NCCL_P2P_LEVEL or NCCL_P2P_DISABLE; empty for the default of the machine
 * @param seesLinks whether the NVLinks to a rank's GPU are in the topology
 */
public record PeerDistances(
    int rank,
    Optional<CommTopology> topology,
    Optional<PathType> level,
    Predicate<PeerInfo> seesLinks) {
  private static final Support UNKNOWN = Support.yes("the machine's topology is not known");

  /** The distances of a rank. */
  public static PeerDistances of(Optional<CommTopology> topology, Settings settings, int rank) {
    return new PeerDistances(
        rank, topology, settings.topology().p2pLevel(), PeerDistances::seesLinks);
  }

  /**
   * Returns whether GPUs may use each other's memory over the path between them, by NCCL's rules.
   */
  public Support directAccess(PeerInfo peer) {
    if (peer.deviceKind() != Device.Kind.CUDA) {
      return UNKNOWN;
    }
    Optional<PeerRules.Access> links = topology.flatMap(known -> known.access(rank, peer.rank()));
    if (links.isEmpty()) {
      return level.equals(Optional.of(PathType.LOC)) ? tooFar("the path", PathType.LOC) : UNKNOWN;
    }
    PathType path = links.get().path();
    if (links.get().direct()) {
      return Support.yes("the path is " + path);
    }
    if (level.isEmpty() && !seesLinks.test(peer)) {
      return Support.yes("it is not known whether NVLink connects the GPUs");
    }
    PathType most = topology.get().p2pLevel(rank);
    return path.within(most)
        ? Support.no("the driver does not allow peer access between the GPUs")
        : tooFar("the path to rank %d, %s (%s),".formatted(peer.rank(), path, path.words()), most);
  }

  private static Support tooFar(String path, PathType most) {
    return Support.no(
        "%s is longer than P2P may use (%s; %s sets it)"
            .formatted(path, most, TopologySettings.NCCL_P2P_LEVEL.name()));
  }

  /** The management library knows of all NVLinks; without it the driver does, of GPUs it shows. */
  private static boolean seesLinks(PeerInfo peer) {
    return Nvml.probe().absence().isEmpty()
        || CudaDevices.probe().find(peer.deviceId()).isPresent();
  }
}
