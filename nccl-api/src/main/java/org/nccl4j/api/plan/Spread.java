package org.nccl4j.api.plan;

/**
 * How ranks are spread over hosts.
 *
 * @param hosts how many
 * @param mostRanks of one host
 * @param carried whether some connections are carried by a proxy, such as over a network
 */
public record Spread(int hosts, int mostRanks, boolean carried) {
  /** All on one host, with memory in common. */
  static Spread together(int nRanks) {
    return new Spread(1, nRanks, false);
  }
}
