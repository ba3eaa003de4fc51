package org.nccl4j.api.exchange;

import java.util.List;

/**
 * The hosts of an exchange's ranks. Ranks with the same place on their hosts are each other's
 * relays, so that every network adapter has its share: the relay of a rank on another host has to
 * do with all that travels between that rank and that host.
 */
final class ExpertRelays {
  /** The host of each rank. */
  private final int[] host;

  /** By rank and host: the relay there; the rank itself for its own host. */
  private final int[][] relays;

  /**
   * The relays between some hosts.
   *
   * @param hosts the ranks of each host, ascending
   */
  ExpertRelays(List<List<Integer>> hosts) {
    int n = hosts.stream().mapToInt(List::size).sum();
    host = new int[n];
    relays = new int[n][hosts.size()];
    for (int own = 0; own < hosts.size(); own++) {
      List<Integer> ranks = hosts.get(own);
      for (int place = 0; place < ranks.size(); place++) {
        host[ranks.get(place)] = own;
        for (int h = 0; h < hosts.size(); h++) {
          List<Integer> there = hosts.get(h);
          relays[ranks.get(place)][h] = there.get(place % there.size());
        }
      }
    }
  }

  /** The number of hosts. */
  int hosts() {
    return relays.length == 0 ? 0 : relays[0].length;
  }

  /** The host of a rank. */
  int host(int rank) {
    return host[rank];
  }

  /** True for ranks of one host. */
  boolean areNear(int rank, int other) {
    return host[rank] == host[other];
  }

  /** The relay of a rank on a host. */
  int relay(int rank, int onHost) {
    return relays[rank][onHost];
  }
}
