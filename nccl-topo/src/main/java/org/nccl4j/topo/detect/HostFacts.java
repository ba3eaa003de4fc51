package org.nccl4j.topo.detect;

import java.util.List;

/**
 * The given facts about a host.
 *
 * @param hash tells hosts apart; equal on all ranks of a host
 * @param gpus the GPUs to have in the topology
 * @param nets the networks, in the plug-in's order
 */
public record HostFacts(long hash, List<GpuFacts> gpus, List<NetFacts> nets) {
  /** Copies the lists. */
  public HostFacts {
    gpus = List.copyOf(gpus);
    nets = List.copyOf(nets);
  }
}
