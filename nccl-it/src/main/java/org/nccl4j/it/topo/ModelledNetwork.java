package org.nccl4j.it.topo;

import org.nccl4j.api.init.costs.ClusterChoices;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.transport.net.NetChannelCount;

/** The network between machines of which only topology files are known. */
public final class ModelledNetwork {
  /** The network whose data go through the host's memory. */
  private static final String SOCKETS = "Socket";

  private ModelledNetwork() {}

  /**
   * InfiniBand, or the first network that NCCL_NET names, with the channels of the NET transport.
   *
   * @param nRanks of the communicator
   */
  public static ClusterChoices.Network of(Settings settings, int nRanks) {
    String named = settings.get(Settings.NCCL_NET).split(",", -1)[0].trim();
    return new ClusterChoices.Network(
        named.isEmpty() ? "IB" : named,
        /* direct= */ !named.equalsIgnoreCase(SOCKETS),
        cards -> NetChannelCount.ofNeighbours(settings, cards),
        cards -> NetChannelCount.ofPairs(settings, nRanks, cards));
  }
}
