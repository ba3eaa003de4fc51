package org.nccl4j.device.kernel;

/**
 * How a communicator's kernels are put to a GPU. The host device has no use for it.
 *
 * @param clusterBlocks blocks of a cluster, where the GPU has such; 0 for launches without clusters
 * @param implicitOrder whether what it launches waits for what other communicators of the process
 *     that say so too have launched on the GPU before
 */
public record LaunchOptions(int clusterBlocks, boolean implicitOrder) {
  /** Without clusters, ordered by streams alone. */
  public static final LaunchOptions PLAIN = new LaunchOptions(0, false);
}
