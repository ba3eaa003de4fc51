package org.nccl4j.topo.detect;

/**
 * A network plug-in's facts about a network.
 *
 * @param name its name, such as mlx5_0
 * @param busId the PCI address of its card, or empty for a virtual one
 * @param speedMbps its speed
 * @param port its port on the card
 * @param guid the card's guid, or 0
 * @param latency in microseconds
 * @param maxConnections how many connections it can have
 * @param gdr whether it reaches GPU memory
 */
public record NetFacts(
    String name,
    String busId,
    int speedMbps,
    int port,
    long guid,
    float latency,
    int maxConnections,
    boolean gdr) {
  /** The same, of a card that reaches GPU memory after all. */
  public NetFacts reachingGpus() {
    return new NetFacts(name, busId, speedMbps, port, guid, latency, maxConnections, true);
  }
}
