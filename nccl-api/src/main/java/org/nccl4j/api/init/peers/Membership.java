package org.nccl4j.api.init.peers;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.api.window.LsaTeam;
import org.nccl4j.api.window.UnreachedPairs;
import org.nccl4j.device.os.AllowedCores;

/**
 * The ranks of a communicator as they introduced themselves.
 *
 * @param peers by rank
 * @param unreached pairs that do not reach each other's memory, as far as that has been tried
 * @param cores that they may use, by rank
 * @param points their addresses for later calls, by rank
 * @param path its derivation from the first communicator, unique among all communicators derived
 *     from that
 * @param id the same for all of them, and no other communicator's
 */
public record Membership(
    List<PeerInfo> peers,
    UnreachedPairs unreached,
    List<AllowedCores> cores,
    List<byte[]> points,
    String path,
    long id) {
  /** Ranks that have not connected. */
  public Membership(
      List<PeerInfo> peers, List<AllowedCores> cores, List<byte[]> points, String path, long id) {
    this(peers, UnreachedPairs.NONE, cores, points, path, id);
  }

  /** The same ranks when they have connected. */
  public Membership with(UnreachedPairs pairs) {
    return new Membership(peers, pairs, cores, points, path, id);
  }

  /** The ranks that reach each other's memory with a rank. */
  public LsaTeam team(int rank) {
    return LsaTeam.of(peers, unreached, rank);
  }

  /** Some of them, with new numbers. */
  public Membership subset(List<Integer> ranks, String newPath) {
    List<PeerInfo> some = new ArrayList<>();
    List<AllowedCores> theirCores = new ArrayList<>();
    List<byte[]> theirs = new ArrayList<>();
    for (int rank = 0; rank < ranks.size(); rank++) {
      some.add(peers.get(ranks.get(rank)).withRank(rank));
      theirCores.add(cores.get(ranks.get(rank)));
      theirs.add(points.get(ranks.get(rank)));
    }
    return new Membership(
        List.copyOf(some),
        unreached.subset(ranks),
        List.copyOf(theirCores),
        List.copyOf(theirs),
        newPath,
        id * 31 + newPath.hashCode());
  }

  /** Cores of the ranks of a rank's host, its own first. */
  public List<AllowedCores> coresBeside(int rank) {
    String host = peers.get(rank).hostId();
    List<AllowedCores> local = new ArrayList<>(List.of(cores.get(rank)));
    for (int peer = 0; peer < peers.size(); peer++) {
      if (peer != rank && peers.get(peer).hostId().equals(host)) {
        local.add(cores.get(peer));
      }
    }
    return List.copyOf(local);
  }

  /** The number of cores that the ranks of a host have together, on the host with the fewest. */
  public int fewestCores() {
    Map<String, List<AllowedCores>> byHost = new HashMap<>();
    for (int rank = 0; rank < peers.size(); rank++) {
      byHost
          .computeIfAbsent(peers.get(rank).hostId(), host -> new ArrayList<>())
          .add(cores.get(rank));
    }
    return byHost.values().stream().mapToInt(AllowedCores::together).min().orElseThrow();
  }

  /** The ranks by host, in the order of their rings and trees. */
  public HostLayout layout() {
    return HostLayout.of(peers).byDomain(peers, cores);
  }

  /** Nodes that they are on: see {@link PeerInfo#node}. */
  public int hosts() {
    return (int) peers.stream().map(PeerInfo::node).distinct().count();
  }
}
