package org.nccl4j.topo.system;

/**
 * Assumptions about devices that the file does not describe.
 *
 * @param gdr whether GPUs and networks have GPUDirect RDMA
 * @param coll whether networks reduce
 */
public record Assumptions(boolean gdr, boolean coll) {
  /** GPUDirect, and no reduction in the network. */
  public static final Assumptions DEFAULT = new Assumptions(true, false);
}
