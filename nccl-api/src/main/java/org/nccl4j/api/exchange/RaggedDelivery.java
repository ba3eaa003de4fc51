package org.nccl4j.api.exchange;

import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;

/**
 * A way of exchanging elements by counts in device memory. Its caller has checked the arguments.
 * One thread at a time.
 */
public interface RaggedDelivery extends AutoCloseable {
  /** True if a call is only put into its stream, which may be captured. */
  boolean isCapturable();

  /** The received elements, by source rank. */
  DeviceMemory received();

  /**
   * Sends elements to each rank, and receives those of each.
   *
   * @param counts elements for each rank
   */
  void allToAll(DeviceMemory send, DeviceMemory counts, DeviceStream stream);

  /**
   * Sends the same elements to all ranks, and receives those of each.
   *
   * @param count their number
   */
  void allGather(DeviceMemory send, DeviceMemory count, DeviceStream stream);

  /** True if {@link #reduceScatter} with such a reduction is only put into its stream. */
  boolean combines(RaggedReduction how);

  /**
   * Combines the parts of all ranks, and receives this rank's.
   *
   * @param counts elements of each rank's part
   */
  void reduceScatter(
      DeviceMemory send, DeviceMemory counts, RaggedReduction how, DeviceStream stream);

  /** Frees its memory. */
  @Override
  void close();
}
