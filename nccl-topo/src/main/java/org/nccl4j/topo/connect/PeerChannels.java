package org.nccl4j.topo.connect;

import java.util.List;
import org.nccl4j.topo.NodeType;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.TopologyException;
import org.nccl4j.topo.path.Locality;
import org.nccl4j.topo.path.Path;
import org.nccl4j.topo.path.Routes;
import org.nccl4j.topo.search.MachineGraphs;
import org.nccl4j.topo.system.Bandwidths;
import org.nccl4j.topo.system.Node;

/** Computes the number of channels of a pair of ranks for send and receive. */
final class PeerChannels {
  private static final int PEERS_PER_BATCH = 8;
  private static final int DEFAULT_NET_CHANNELS = 2;

  private final CommShape shape;
  private final TopoSettings settings;

  PeerChannels(CommShape shape, TopoSettings settings) {
    this.shape = shape;
    this.settings = settings;
  }

  /** All channels for send and receive. */
  int total(int nChannels) {
    int wanted = Math.min(nChannels, settings.maxPeerChannels());
    wanted = Math.max(wanted, settings.minPeerChannels());
    return Math.min(powerUp(wanted), Integer.highestOneBit(settings.channelsThatFitArguments()));
  }

  /** Channels for one peer, when there are so many in all. */
  int perPeer(int total) {
    int least = TopoSettings.MAX_CHANNELS;
    for (MachineGraphs machine : shape.machines()) {
      least = Math.min(least, leastOf(machine.routes()));
    }
    int perPeer = powerUp(least);
    if (shape.nNodes() == 1 || settings.channelsPerNetPeer().isPresent()) {
      return Math.min(total, perPeer);
    }
    // Over nodes the network is the limit: rather all peers in one round than many channels each.
    int peers = Math.min(settings.maxPeers().orElse(shape.nRanks()), shape.nRanks());
    int batches = (peers + PEERS_PER_BATCH - 1) / PEERS_PER_BATCH;
    while ((long) perPeer * batches > total && perPeer > 1) {
      perPeer /= 2;
    }
    return perPeer;
  }

  private int leastOf(Routes routes) {
    List<Node> gpus = routes.machine().gpus();
    int least = TopoSettings.MAX_CHANNELS;
    for (Node gpu : gpus) {
      for (Node peer : gpus) {
        if (peer != gpu) {
          least = Math.min(least, local(gpu, routes.paths().path(peer, gpu)));
        }
      }
      if (shape.nRanks() > gpus.size()) {
        least = Math.min(least, remote(routes, gpu));
      }
    }
    return least;
  }

  private static int local(Node gpu, Path path) {
    if (path.type() != PathType.NVL && path.type() != PathType.NVB) {
      return 2;
    }
    return 2 * Math.max(1, (int) (path.bandwidth() / Bandwidths.nvLink(gpu.gpu().sm())));
  }

  private int remote(Routes routes, Node gpu) {
    return settings
        .channelsPerNetPeer()
        .orElseGet(
            () -> {
              NetShare share = NetShare.of(routes, gpu);
              if (share.nets() == 0 && settings.matchesNccl()) {
                throw new TopologyException(
                    "no network can be chosen",
                    gpu.toString(),
                    "it reaches no network, where NCCL gives up",
                    "unset NCCL4J_TOPO_COMPAT, or add a <net> that it reaches");
              }
              int perChannel = Math.max(1, settings.get(TopoSettings.NCCL_P2P_PER_CHANNEL_NET_BW));
              int forBandwidth = ((int) share.bandwidth() + perChannel - 1) / perChannel;
              return share.nets() == 0
                  ? DEFAULT_NET_CHANNELS
                  : Math.max(share.nets(), forBandwidth);
            });
  }

  private static int powerUp(int value) {
    int down = Integer.highestOneBit(Math.max(1, value));
    return down == value ? down : Math.max(1, down * 2);
  }

  /**
   * The networks that a GPU can keep busy.
   *
   * @param nets how many
   * @param bandwidth of all of them, in GB/s
   */
  record NetShare(int nets, float bandwidth) {
    static NetShare of(Routes routes, Node gpu) {
      Locality locality = routes.locality();
      if (locality.nearest(gpu, NodeType.NET).nodes().isEmpty()) {
        return new NetShare(0, 0);
      }
      float limit = routes.paths().path(gpu, locality.cpuOf(gpu)).bandwidth();
      int nets = 0;
      float bandwidth = 0;
      for (Node net : locality.netsOf(gpu)) {
        bandwidth += routes.paths().path(gpu, net).bandwidth();
        nets++;
        if (bandwidth >= limit) {
          break;
        }
      }
      return new NetShare(nets, bandwidth);
    }
  }
}
