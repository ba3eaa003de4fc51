package org.nccl4j.api.plan.algorithm;

import org.nccl4j.device.kernel.ConnectionLayout;

/**
 * The distribution of ranks over hosts.
 *
 * @param hosts how many
 * @param mostRanks of one host
 * @param carried whether some connections are carried by a proxy, such as over a network
 * @param channels that every connection has
 * @param lines whether every connection has LL
 * @param inOrder whether the ranks are numbered host after host
 */
public record RankPlacement(
    int hosts, int mostRanks, boolean carried, int channels, boolean lines, boolean inOrder) {
  /** With ranks that are numbered host after host. */
  public RankPlacement(int hosts, int mostRanks, boolean carried, int channels, boolean lines) {
    this(hosts, mostRanks, carried, channels, lines, /* inOrder= */ true);
  }

  /** With all channels, and LL where no proxy is. */
  RankPlacement(int hosts, int mostRanks, boolean carried) {
    this(hosts, mostRanks, carried, ConnectionLayout.CHANNELS, !carried);
  }

  /**
   * True if each of several hosts has as many ranks, more than one, numbered host after host, and a
   * network connects the hosts.
   */
  public boolean hasRails(int nRanks) {
    return carried && inOrder && hosts > 1 && mostRanks > 1 && nRanks == hosts * mostRanks;
  }

  /** All on one host, with memory in common. */
  static RankPlacement together(int nRanks) {
    return new RankPlacement(1, nRanks, false);
  }
}
