package org.nccl4j.device.kernel;

import java.util.List;

/**
 * A rank's place among hosts that have as many ranks each, more than one: the ranks of a host are a
 * ring, and so are the ranks with one number on each of the hosts, a rail. Immutable.
 *
 * @param ranks host after host
 * @param locals ranks of a host
 * @param host this rank's
 * @param index this rank's number on its host
 */
public record HostGrid(int[] ranks, int locals, int host, int index) {
  /**
   * The place of a rank.
   *
   * @param hosts the ranks of each; a grid
   */
  public static HostGrid of(List<List<Integer>> hosts, int rank) {
    int host = 0;
    while (!hosts.get(host).contains(rank)) {
      host++;
    }
    return new HostGrid(ranks(hosts), hosts.get(0).size(), host, hosts.get(host).indexOf(rank));
  }

  /** True for several hosts with as many ranks each, more than one. */
  public static boolean isGrid(List<List<Integer>> hosts) {
    return hosts.size() > 1
        && hosts.get(0).size() > 1
        && hosts.stream().allMatch(each -> each.size() == hosts.get(0).size());
  }

  /** All ranks, host after host. */
  public static int[] ranks(List<List<Integer>> hosts) {
    return hosts.stream().flatMap(List::stream).mapToInt(Integer::intValue).toArray();
  }

  public int hosts() {
    return ranks.length / locals;
  }

  /** The rank of a host with a number on it. */
  public int at(int ofHost, int number) {
    return ranks[ofHost * locals + number];
  }

  /** The rank so many places before this one along the rail and within the host. */
  public int before(int alongRail, int within) {
    int h = Math.floorMod(host - alongRail, hosts());
    return ranks[h * locals + Math.floorMod(index - within, locals)];
  }

  /** This rank. */
  public int self() {
    return before(0, 0);
  }

  /** The number of this rank among {@link #ranks}. */
  public int place() {
    return host * locals + index;
  }
}
