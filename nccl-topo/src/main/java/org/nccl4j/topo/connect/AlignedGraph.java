package org.nccl4j.topo.connect;

import java.util.List;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.search.ChannelGraph;

/**
 * The common values of all nodes for a graph: the least of any node. The cost model uses these, so
 * that all ranks make the same choice.
 *
 * @param nChannels channels
 * @param sameChannels whether all channels have the same order
 * @param bwIntra GB/s per channel between GPUs
 * @param bwInter GB/s per channel to the network
 * @param latencyInter of the network, in microseconds, as the first rank sees it
 * @param typeIntra the longest path between GPUs
 * @param typeInter the longest path to a network
 * @param crossNic whether channels change cards
 */
public record AlignedGraph(
    int nChannels,
    boolean sameChannels,
    float bwIntra,
    float bwInter,
    float latencyInter,
    PathType typeIntra,
    PathType typeInter,
    int crossNic) {

  static AlignedGraph of(List<ChannelGraph> graphs) {
    ChannelGraph first = graphs.get(0);
    int nChannels = first.nChannels();
    boolean sameChannels = first.sameChannels();
    float bwIntra = first.bwIntra();
    float bwInter = first.bwInter();
    PathType typeIntra = first.typeIntra();
    PathType typeInter = first.typeInter();
    int crossNic = first.crossNic();
    for (ChannelGraph graph : graphs) {
      nChannels = Math.min(nChannels, graph.nChannels());
      sameChannels &= graph.sameChannels();
      bwIntra = Math.min(bwIntra, graph.bwIntra());
      bwInter = Math.min(bwInter, graph.bwInter());
      typeIntra = typeIntra.max(graph.typeIntra());
      typeInter = typeInter.max(graph.typeInter());
      crossNic = Math.max(crossNic, graph.crossNic());
    }
    return new AlignedGraph(
        nChannels,
        sameChannels,
        bwIntra,
        bwInter,
        first.latencyInter(),
        typeIntra,
        typeInter,
        crossNic);
  }

  AlignedGraph withChannels(int channels) {
    return new AlignedGraph(
        channels, sameChannels, bwIntra, bwInter, latencyInter, typeIntra, typeInter, crossNic);
  }
}
