package org.nccl4j.topo.search;

import java.util.Arrays;
import org.nccl4j.topo.PathType;
import org.nccl4j.topo.Pattern;
import org.nccl4j.topo.TopoSettings;

/**
 * A graph while it is searched for: its requirements, and the channels so far. GPUs and networks
 * are indexes into the machine. Owned by the thread that searches.
 */
final class SearchState {
  static final int NO_NET = -1;

  final GraphKind kind;
  final int gpus;
  Pattern pattern;
  int crossNic;
  int minChannels;
  int maxChannels;
  int nChannels;
  float bwIntra;
  float bwInter;
  float latencyInter;
  PathType typeIntra = PathType.LOC;
  PathType typeInter = PathType.LOC;
  boolean sameChannels;
  int hops;

  /** GPUs of all channels: those of a channel follow each other, in the order of its steps. */
  private final int[] channelGpus;

  /** The networks by which each channel enters and leaves. */
  private final int[] channelNets;

  SearchState(GraphKind kind, int gpus, int minChannels, int maxChannels) {
    this.kind = kind;
    this.gpus = gpus;
    this.pattern = kind.pattern();
    this.minChannels = minChannels;
    this.maxChannels = maxChannels;
    this.channelGpus = new int[TopoSettings.MAX_CHANNELS * gpus];
    this.channelNets = new int[TopoSettings.MAX_CHANNELS * 2];
    Arrays.fill(channelNets, NO_NET);
  }

  void copyFrom(SearchState other) {
    pattern = other.pattern;
    crossNic = other.crossNic;
    minChannels = other.minChannels;
    maxChannels = other.maxChannels;
    nChannels = other.nChannels;
    bwIntra = other.bwIntra;
    bwInter = other.bwInter;
    latencyInter = other.latencyInter;
    typeIntra = other.typeIntra;
    typeInter = other.typeInter;
    sameChannels = other.sameChannels;
    hops = other.hops;
    System.arraycopy(other.channelGpus, 0, channelGpus, 0, channelGpus.length);
    System.arraycopy(other.channelNets, 0, channelNets, 0, channelNets.length);
  }

  int gpu(int channel, int step) {
    return channelGpus[channel * gpus + step];
  }

  void setGpu(int channel, int step, int gpu) {
    channelGpus[channel * gpus + step] = gpu;
  }

  int netIn(int channel) {
    return channelNets[channel * 2];
  }

  int netOut(int channel) {
    return channelNets[channel * 2 + 1];
  }

  void setNetIn(int channel, int net) {
    channelNets[channel * 2] = net;
  }

  void setNetOut(int channel, int net) {
    channelNets[channel * 2 + 1] = net;
  }

  float totalIntra() {
    return nChannels * bwIntra;
  }

  float totalInter() {
    return nChannels * bwInter;
  }

  /** True if it is better than a reference: more bandwidth, then fewer hops. */
  boolean beats(SearchState reference) {
    if (nChannels < minChannels) {
      return false;
    }
    if (pattern == Pattern.NVLS) {
      // Channels are GPUs that pull from the switch: the more the better.
      return (nChannels > reference.nChannels && nChannels <= gpus)
          || totalInter() > reference.totalInter();
    }
    if (totalIntra() != reference.totalIntra()) {
      return totalIntra() > reference.totalIntra();
    }
    return pattern == reference.pattern && crossNic == reference.crossNic && hops < reference.hops;
  }

  /** Doubles the channels at half the bandwidth each: more blocks for the same links. */
  void duplicate(int minSm) {
    boolean enough = minSm > 80 && bwIntra < 50.0f && nChannels > 4;
    if (nChannels == 0 || pattern == Pattern.NVLS || bwIntra < 25.0f || enough) {
      return;
    }
    int doubled = Math.min(nChannels * 2, maxChannels);
    int added = doubled - nChannels;
    System.arraycopy(channelGpus, 0, channelGpus, nChannels * gpus, added * gpus);
    System.arraycopy(channelNets, 0, channelNets, nChannels * 2, added * 2);
    int factor = (doubled + nChannels - 1) / nChannels;
    bwIntra /= factor;
    bwInter /= factor;
    nChannels = doubled;
  }
}
