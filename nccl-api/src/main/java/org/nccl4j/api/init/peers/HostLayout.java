package org.nccl4j.api.init.peers;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.IntUnaryOperator;
import org.nccl4j.api.plan.cost.RankPlacement;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.Device;
import org.nccl4j.device.kernel.Tree;
import org.nccl4j.device.os.AllowedCores;
import org.nccl4j.device.os.CoreDomain;
import org.nccl4j.topo.DoubleBinaryTree;

/**
 * The ranks by host, and what follows from it: a ring that enters and leaves each host once, and
 * two trees whose hosts form a double binary tree. A host here is a node ({@link PeerInfo#node}):
 * ranks whose containers share no memory count as on different hosts, since only a network connects
 * them. The hosts of a clique, whose GPUs all map each other's memory, count as one.
 *
 * @param ranks of each host, ascending unless {@link #byDomain} orders them; hosts by their lowest
 *     rank
 */
public record HostLayout(List<List<Integer>> ranks) {
  public static HostLayout of(List<PeerInfo> peers) {
    Map<String, List<Integer>> byHost = new LinkedHashMap<>();
    for (int rank = 0; rank < peers.size(); rank++) {
      PeerInfo peer = peers.get(rank);
      byHost.computeIfAbsent(peer.node(), host -> new ArrayList<>()).add(rank);
    }
    return new HostLayout(List.copyOf(byHost.values()));
  }

  /**
   * The same with ranks on the host device by NUMA node, and those of a node by last cache, so that
   * few neighbours in the ring and few edges of trees are between these. Nodes, and the caches of
   * each, follow each other by their lowest rank. Where a rank of a host may run on cores of
   * several nodes, or nothing is known of them, the host's ranks stay in order.
   *
   * @param peers by rank
   * @param cores that they may use, by rank
   */
  HostLayout byDomain(List<PeerInfo> peers, List<AllowedCores> cores) {
    return new HostLayout(ranks.stream().map(each -> byDomain(each, peers, cores)).toList());
  }

  private static List<Integer> byDomain(
      List<Integer> ranks, List<PeerInfo> peers, List<AllowedCores> cores) {
    Map<Integer, Map<Integer, List<Integer>>> nodes = new LinkedHashMap<>();
    for (int rank : ranks) {
      CoreDomain domain = cores.get(rank).domain();
      if (domain.equals(CoreDomain.NONE) || peers.get(rank).deviceKind() != Device.Kind.HOST) {
        return ranks;
      }
      nodes
          .computeIfAbsent(domain.node(), node -> new LinkedHashMap<>())
          .computeIfAbsent(domain.cache(), cache -> new ArrayList<>())
          .add(rank);
    }
    return nodes.values().stream()
        .flatMap(caches -> caches.values().stream())
        .flatMap(List::stream)
        .toList();
  }

  /** A rank's device, by a name that no other device of any host has. */
  public static String deviceOf(PeerInfo peer) {
    return peer.hostId() + " " + peer.deviceId();
  }

  public int count() {
    return ranks.size();
  }

  /** Ranks of the host that has most. */
  public int mostRanks() {
    return ranks.stream().mapToInt(List::size).max().orElse(0);
  }

  /** Ranks of the host that has fewest. */
  public int fewestRanks() {
    return ranks.stream().mapToInt(List::size).min().orElse(0);
  }

  /** As {@link RankPlacement#sharingSlots}. */
  public int sharingSlots(boolean late) {
    int all = ranks.stream().mapToInt(List::size).sum();
    return RankPlacement.sharingSlots(all, mostRanks(), late);
  }

  /** All ranks in ring order. */
  public int[] ring() {
    return ranks.stream().flatMap(List::stream).mapToInt(Integer::intValue).toArray();
  }

  /**
   * A rank's place in one of the two trees. On one host that is the double binary tree of the
   * ranks. Between hosts it is that of the hosts, whose heads are different ranks in the two trees;
   * the other ranks of a host form a binary tree below its head.
   *
   * @param which 0 or 1
   */
  public Tree tree(int rank, int which) {
    IntUnaryOperator parents = each -> place(each, which).up();
    Tree place = place(rank, which);
    return new Tree(place.up(), place.down(), parents);
  }

  private Tree place(int rank, int which) {
    int host = hostOf(rank);
    List<Integer> locals = ranks.get(host);
    if (count() == 1) {
      return place(DoubleBinaryTree.place(locals.size(), locals.indexOf(rank), which), locals);
    }
    int size = locals.size();
    int head = which % size;
    int below = Math.floorMod(locals.indexOf(rank) - head, size);
    List<Integer> down = new ArrayList<>();
    int up = below == 0 ? -1 : locals.get(((below - 1) / 2 + head) % size);
    if (below == 0) {
      List<Integer> heads = ranks.stream().map(each -> each.get(which % each.size())).toList();
      Tree between = between(heads, host, which);
      up = between.up();
      down.addAll(between.down());
    }
    for (int child = 2 * below + 1; child <= 2 * below + 2 && child < size; child++) {
      down.add(locals.get((child + head) % size));
    }
    return new Tree(up, List.copyOf(down));
  }

  /** The host of a rank. */
  public int hostOf(int rank) {
    int host = 0;
    while (!ranks.get(host).contains(rank)) {
      host++;
    }
    return host;
  }

  /**
   * A place in one of the two trees of some ranks, one of each host.
   *
   * @param some by host
   * @param which 0 or 1
   */
  public static Tree between(List<Integer> some, int host, int which) {
    return place(DoubleBinaryTree.place(some.size(), host, which), some);
  }

  private static Tree place(DoubleBinaryTree.Place place, List<Integer> members) {
    List<Integer> down = new ArrayList<>();
    for (int child : new int[] {place.down0(), place.down1()}) {
      if (child != DoubleBinaryTree.NONE) {
        down.add(members.get(child));
      }
    }
    int up = place.up() == DoubleBinaryTree.NONE ? -1 : members.get(place.up());
    return new Tree(up, List.copyOf(down));
  }
}
