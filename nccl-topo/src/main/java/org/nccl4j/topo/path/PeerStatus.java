package org.nccl4j.topo.path;

/** The driver's answer about direct access between two GPUs. */
@FunctionalInterface
public interface PeerStatus {
  /** The driver allows it for all pairs. */
  PeerStatus ALLOWED = (a, b) -> true;

  /** The driver allows it for no pair, as in some virtual machines. */
  PeerStatus FORBIDDEN = (a, b) -> false;

  /** True if the GPU with one device number may read and write the other's memory. */
  boolean allowed(int dev, int otherDev);
}
