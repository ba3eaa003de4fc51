package org.nccl4j.topo.system;

/**
 * Assumptions about devices that the file does not describe.
 *
 * @param gdr whether GPUs and networks have GPUDirect RDMA
 * @param coll whether networks reduce
 */
public record Assumptions(boolean gdr, boolean coll) {}
