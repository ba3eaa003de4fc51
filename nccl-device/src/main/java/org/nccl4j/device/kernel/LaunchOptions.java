package org.nccl4j.device.kernel;

import java.util.Set;
import org.nccl4j.device.DataType;

/**
 * Options of kernel launches on a GPU. The host device ignores them.
 *
 * @param clusterBlocks blocks of a cluster, where the GPU has such; 0 for launches without clusters
 * @param implicitOrder whether what it launches waits for what other communicators of the process
 *     that say so too have launched on the GPU before
 * @param oneQueue whether all streams of the process share one queue to the GPU, as
 *     CUDA_DEVICE_MAX_CONNECTIONS=1 has it: a stream that waits for another rank holds all up
 * @param messageBlocks most blocks of a kernel of sends and receives: one with more goes as
 *     several, one after the other; at least 2
 * @param preload types of which all kernels are loaded at the creation of a communicator of several
 *     ranks, with all that only copy; empty for none
 * @param nvrtc the compiler of users' functors, or its folder; empty to look for it
 * @param fusesGroups whether operations of a group are launched together where there are kernels
 *     for that; the same on all ranks
 */
public record LaunchOptions(
    int clusterBlocks,
    boolean implicitOrder,
    boolean oneQueue,
    int messageBlocks,
    Set<DataType> preload,
    String nvrtc,
    boolean fusesGroups) {
  /** Without clusters, ordered by streams alone. */
  public static final LaunchOptions PLAIN = new LaunchOptions(0, false, false, Set.of());

  /** Where NVRTC is looked for. */
  public LaunchOptions(
      int clusterBlocks,
      boolean implicitOrder,
      boolean oneQueue,
      int messageBlocks,
      Set<DataType> preload) {
    this(
        clusterBlocks,
        implicitOrder,
        oneQueue,
        messageBlocks,
        preload,
        "",
        /* fusesGroups= */ true);
  }

  /** Without a limit on blocks of sends and receives. */
  public LaunchOptions(
      int clusterBlocks, boolean implicitOrder, boolean oneQueue, Set<DataType> preload) {
    this(clusterBlocks, implicitOrder, oneQueue, Integer.MAX_VALUE, preload);
  }
}
