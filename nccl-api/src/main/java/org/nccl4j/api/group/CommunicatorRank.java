package org.nccl4j.api.group;

import org.nccl4j.device.Device;

/**
 * One rank of a communicator, as its operations know it.
 *
 * @param name of the communicator
 * @param communicator the same for all its ranks, and no other communicator's
 * @param rank 0 to nRanks - 1
 * @param device on which the rank's operations run
 * @param checksPointers whether the device is asked about each buffer's address
 * @param checksOverlaps whether buffers are refused that overlap in another way than in place
 */
public record CommunicatorRank(
    String name,
    long communicator,
    int rank,
    int nRanks,
    Device device,
    boolean checksPointers,
    boolean checksOverlaps) {

  /** The rank and its communicator, for messages. */
  String who() {
    return "rank %d of communicator %s".formatted(rank, name);
  }

  /** True if the operations run on a GPU. */
  boolean isOnGpu() {
    return device.kind() == Device.Kind.CUDA;
  }
}
