package org.nccl4j.topo.cluster;

import org.nccl4j.topo.TopoSettings;
import org.nccl4j.topo.path.PeerStatus;

/**
 * The inputs of a cluster's graphs besides its machines.
 *
 * @param settings the NCCL_* settings
 * @param driver the driver's answer about peer access
 * @param collNet whether the network can reduce
 */
public record ClusterOptions(TopoSettings settings, PeerStatus driver, boolean collNet) {
  /** Nothing set, peer access everywhere, no reduction in the network. */
  public static final ClusterOptions DEFAULT =
      new ClusterOptions(TopoSettings.defaults(), PeerStatus.ALLOWED, false);
}
