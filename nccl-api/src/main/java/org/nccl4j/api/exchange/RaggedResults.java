package org.nccl4j.api.exchange;

import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.kernel.RaggedKernels;

/**
 * The numbers of the elements that a call of a ragged exchange brings a rank, in device memory.
 *
 * @param counts [nRanks]: elements from each rank
 * @param offsets [nRanks + 1]: the first element from each rank, then all elements
 */
public record RaggedResults(DeviceMemory counts, DeviceMemory offsets) implements AutoCloseable {
  /** Allocates them, zeros. */
  public static RaggedResults allocate(Device device, RaggedKernels.Sizes sizes) {
    long bytes = (long) sizes.nRanks() * sizes.countBytes();
    DeviceMemory[] made = ExchangeMemory.allocateZeros(device, bytes, bytes + sizes.countBytes());
    return new RaggedResults(made[0], made[1]);
  }

  @Override
  public void close() {
    counts.close();
    offsets.close();
  }
}
