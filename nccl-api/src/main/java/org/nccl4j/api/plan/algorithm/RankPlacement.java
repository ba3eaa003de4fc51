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
 */
public record RankPlacement(
    int hosts, int mostRanks, boolean carried, int channels, boolean lines) {
  /** With all channels, and LL where no proxy is. */
  RankPlacement(int hosts, int mostRanks, boolean carried) {
    this(hosts, mostRanks, carried, ConnectionLayout.CHANNELS, !carried);
  }

  /** All on one host, with memory in common. */
  static RankPlacement together(int nRanks) {
    return new RankPlacement(1, nRanks, false);
  }
}
