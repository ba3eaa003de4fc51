package org.nccl4j.topo.detect;

import java.util.List;

/**
 * The given facts about a host.
 *
 * @param hash identifies the host; equal on all its ranks
 * @param gpus the GPUs of the topology
 * @param nets the networks, in the plug-in's order
 */
public record HostFacts(long hash, List<GpuFacts> gpus, List<NetFacts> nets) {
  /** Copies the lists. */
  public HostFacts {
    gpus = List.copyOf(gpus);
    nets = List.copyOf(nets);
  }
}
