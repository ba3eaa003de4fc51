package org.nccl4j.device.os;

/**
 * The part of a machine that a rank's cores are in, as far as they are in one.
 *
 * @param node the NUMA node's number; negative if they are on several, or it is not known
 * @param cache the first core that shares their last cache; negative likewise
 */
public record CoreDomain(int node, int cache) {
  /** That of cores which are all over the machine, or of which nothing is known. */
  public static final CoreDomain NONE = new CoreDomain(-1, -1);
}
