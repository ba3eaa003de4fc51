package org.nccl4j.api.init.engine;

import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.nccl4j.api.init.peers.HostLayout;
import org.nccl4j.api.init.topology.ChannelGraphs;
import org.nccl4j.api.plan.cost.RankPlacement;
import org.nccl4j.api.settings.ScaleSettings;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.kernel.HostGrid;

/**
 * A rank's neighbours, and the ranks with which it is connected when an operation first needs it.
 */
public final class LatePeers {
  private LatePeers() {}

  /**
   * The ranks that no algorithm over connections leads to from this one, if ranks connect late. If
   * one is late for another rank, that one is late for it too.
   *
   * @param neighbours as of {@link #neighbours}
   */
  public static Set<Integer> of(
      Settings settings, List<PeerInfo> peers, Set<Integer> neighbours, int rank) {
    if (!exist(settings, peers)) {
      return Set.of();
    }
    return peers.stream()
        .map(PeerInfo::rank)
        .filter(peer -> peer != rank && !neighbours.contains(peer))
        .collect(Collectors.toUnmodifiableSet());
  }

  /**
   * The ranks that an algorithm over connections leads to from this one, but for algorithms that
   * lead from each rank to all others. If one is a neighbour of another rank, that one is its
   * neighbour too.
   *
   * <p>GPUs' kernels use the connections of all algorithms in one table and with one number of
   * channels. So those of PAT and of NVLS between machines are made with the rings', where these
   * algorithms may be chosen. Those of the hierarchical way are made on all hosts with as many
   * ranks each, whatever NCCL_ALGO says: a call may name the algorithm too. They are two more
   * ranks.
   */
  public static Set<Integer> neighbours(
      Settings settings, List<PeerInfo> peers, ChannelGraphs graphs, int rank) {
    Set<Integer> neighbours = graphs.neighbours(rank);
    if (areOnGpus(peers)) {
      HostLayout hosts = HostLayout.of(peers);
      boolean late = exist(settings, peers);
      if (mayHavePat(graphs) && RankPlacement.patChunk(peers.size(), hosts.mostRanks(), late) > 0) {
        addNeighboursOfPat(neighbours, peers.size(), rank);
      }
      if (NvlsDecision.mayBeAmong(hosts, settings, graphs::nvlsChannels)) {
        new NvlsTeams(hosts, graphs.nvlsHeads(), 0, 0)
            .trees(rank)
            .forEach(tree -> neighbours.addAll(tree.neighbours()));
      }
      neighbours.addAll(hosts.ranks().get(hosts.hostOf(rank)));
      addNeighboursOnRail(neighbours, hosts, rank);
    }
    neighbours.remove(rank);
    return neighbours;
  }

  /** NCCL_PAT_ENABLE; where the topology is not known, the cost model does not ask. */
  private static boolean mayHavePat(ChannelGraphs graphs) {
    return graphs.topology().map(found -> found.costs().allowsPat()).orElse(true);
  }

  /** True if ranks connect late where they can: the same on all ranks. */
  public static boolean exist(Settings settings, List<PeerInfo> peers) {
    Device.Kind kind = peers.get(0).deviceKind();
    return peers.stream().allMatch(peer -> peer.deviceKind() == kind)
        && ScaleSettings.connectsLate(settings, kind, peers.size());
  }

  /** True if ranks of GPUs on several hosts may have some. */
  public static boolean areAmongGpus(Settings settings, List<PeerInfo> peers) {
    return areOnGpus(peers) && exist(settings, peers);
  }

  private static boolean areOnGpus(List<PeerInfo> peers) {
    return peers.get(0).deviceKind() == Device.Kind.CUDA;
  }

  /** The ranks with the same number on the hosts before and behind, if all hosts have as many. */
  private static void addNeighboursOnRail(Set<Integer> neighbours, HostLayout hosts, int rank) {
    if (HostGrid.isGrid(hosts.ranks())) {
      HostGrid grid = HostGrid.of(hosts.ranks(), rank);
      neighbours.add(grid.before(1, 0));
      neighbours.add(grid.before(-1, 0));
    }
  }

  /** Ranks at distances 1, 2, 4, ... */
  private static void addNeighboursOfPat(Set<Integer> neighbours, int n, int rank) {
    for (int distance = 1; distance < n; distance *= 2) {
      neighbours.add((rank + distance) % n);
      neighbours.add((rank + n - distance) % n);
    }
  }
}
