package org.nccl4j.api.init.peers;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.api.spi.PeerInfo;

/**
 * The ranks of a communicator as they introduced themselves.
 *
 * @param peers by rank
 * @param points their addresses for later calls, by rank
 * @param path its derivation from the first communicator, unique among all communicators derived
 *     from that
 * @param id the same for all of them, and no other communicator's
 */
public record Membership(List<PeerInfo> peers, List<byte[]> points, String path, long id) {
  /** Some of them, with new numbers. */
  public Membership subset(List<Integer> ranks, String newPath) {
    List<PeerInfo> some = new ArrayList<>();
    List<byte[]> theirs = new ArrayList<>();
    for (int rank = 0; rank < ranks.size(); rank++) {
      some.add(peers.get(ranks.get(rank)).withRank(rank));
      theirs.add(points.get(ranks.get(rank)));
    }
    return new Membership(
        List.copyOf(some), List.copyOf(theirs), newPath, id * 31 + newPath.hashCode());
  }

  /** Nodes that they are on: see {@link PeerInfo#node}. */
  public int hosts() {
    return (int) peers.stream().map(PeerInfo::node).distinct().count();
  }
}
