package org.nccl4j.topo.search;

import java.util.List;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.Pattern;

/**
 * The result of a search on one machine. Bandwidths are GB/s per channel. Immutable.
 *
 * @param kind which graph
 * @param pattern the shape found, which may be simpler than the requested one
 * @param crossNic whether a channel may leave through another NIC than it entered: 0, 1, or 2 for
 *     pairs
 * @param bwIntra between GPUs
 * @param bwInter between GPUs and networks
 * @param latencyInter of the network, in microseconds
 * @param typeIntra the longest path between GPUs
 * @param typeInter the longest path to a network
 * @param sameChannels whether all channels have the same order
 * @param hops links used in all
 * @param minChannels the fewest asked for
 * @param maxChannels the most asked for
 * @param channels the channels
 */
public record ChannelGraph(
    GraphKind kind,
    Pattern pattern,
    int crossNic,
    float bwIntra,
    float bwInter,
    float latencyInter,
    PathType typeIntra,
    PathType typeInter,
    boolean sameChannels,
    int hops,
    int minChannels,
    int maxChannels,
    List<Channel> channels) {

  /** Copies the list. */
  public ChannelGraph {
    channels = List.copyOf(channels);
  }

  /** Returns the number of channels. */
  public int nChannels() {
    return channels.size();
  }

  /** The graph of a kind that the machine or the settings do not allow. */
  public static ChannelGraph none(GraphKind kind, int minChannels, int maxChannels) {
    return new ChannelGraph(
        kind,
        kind.pattern(),
        0,
        0,
        0,
        0,
        PathType.LOC,
        PathType.LOC,
        false,
        0,
        minChannels,
        maxChannels,
        List.of());
  }
}
