package org.nccl4j.api.init.topology;

import java.util.Set;
import org.nccl4j.topo.detect.NetFacts;

/**
 * The names of the devices of a rank's networks.
 *
 * @param preferred those of the best network, which the topology has as NCCL's has those of its
 *     only one; empty where they are not known
 * @param reachingGpus those, of all networks, that say that they access GPU memory
 */
public record HostNics(Set<String> preferred, Set<String> reachingGpus) {
  /** Of ranks that do not ask. */
  public static final HostNics UNKNOWN = new HostNics(Set.of(), Set.of());

  boolean isPreferred(NetFacts net) {
    return preferred.contains(net.name()) || preferred.contains(net.name() + ":" + net.port());
  }

  boolean reachesGpus(NetFacts net) {
    return reachingGpus.contains(net.name() + ":" + net.port());
  }
}
