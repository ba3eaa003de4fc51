package org.nccl4j.device.kernel;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;

/**
 * The memory into which messages of ranks outside the team may write.
 *
 * @param rank this one
 * @param windows those of this rank
 * @param room most bytes of a message's data
 */
public record RmaTargets(int rank, RmaSpace.Windows windows, long room) {
  /**
   * The memory of the window that a message names.
   *
   * @param peer who sends it
   * @param bytes that are to be written at the offset
   * @throws InvalidUsageException if they do not lie in a window that is registered here
   */
  public DeviceMemory of(int peer, long window, long offset, int bytes) {
    DeviceMemory target = windows.memory(window);
    if (bytes < 0
        || bytes > room
        || target == null
        || offset < 0
        || offset > target.size() - bytes) {
      throw new InvalidUsageException(
          ErrorId.HANDLE,
          "rank %d puts %d bytes at byte %d of window %d of rank %d, which %s"
              .formatted(
                  peer,
                  bytes,
                  offset,
                  window,
                  rank,
                  target == null ? "is not registered there" : "has " + target.size() + " bytes"),
          "deregister a window after the last put into it, on all ranks in the same order");
    }
    return target;
  }
}
