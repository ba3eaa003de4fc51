package org.nccl4j.api;

import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.kernel.ExpertSizes;

/** The memory of an exchange with experts that its user reads: what a dispatch brings a rank. */
record ExpertBuffers(
    DeviceMemory received, DeviceMemory scales, DeviceMemory counts, DeviceMemory offsets)
    implements AutoCloseable {
  /** Allocates for the most rows that a rank can receive. */
  static ExpertBuffers allocate(Device device, ExpertSizes sizes) {
    long rows = sizes.rows();
    long local = sizes.localExperts();
    DeviceMemory[] made =
        allocateAll(
            device,
            rows * sizes.wireBytes(),
            rows * sizes.scaleBytes(),
            local * sizes.nRanks() * Integer.BYTES,
            (local + 1) * Integer.BYTES);
    return new ExpertBuffers(made[0], made[1], made[2], made[3]);
  }

  /** Allocates memories of some bytes each; none remains if one of them cannot be had. */
  static DeviceMemory[] allocateAll(Device device, long... bytes) {
    DeviceMemory[] made = new DeviceMemory[bytes.length];
    try {
      for (int i = 0; i < bytes.length; i++) {
        made[i] = device.allocate(bytes[i]);
      }
    } catch (RuntimeException e) {
      for (DeviceMemory memory : made) {
        if (memory != null) {
          memory.close();
        }
      }
      throw e;
    }
    return made;
  }

  @Override
  public void close() {
    received.close();
    scales.close();
    counts.close();
    offsets.close();
  }
}
