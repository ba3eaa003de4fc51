package org.nccl4j.api.exchange;

import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;

/** Allocates the memories of an exchange. */
public final class ExchangeMemory {
  private ExchangeMemory() {}

  /** Allocates memories of some bytes each; none remains if one of them cannot be had. */
  public static DeviceMemory[] allocateAll(Device device, long... bytes) {
    return allocate(device, /* zeros= */ false, bytes);
  }

  /** The same, with zeros in them. */
  static DeviceMemory[] allocateZeros(Device device, long... bytes) {
    return allocate(device, /* zeros= */ true, bytes);
  }

  private static DeviceMemory[] allocate(Device device, boolean zeros, long... bytes) {
    DeviceMemory[] made = new DeviceMemory[bytes.length];
    try {
      for (int i = 0; i < bytes.length; i++) {
        made[i] = device.allocate(bytes[i]);
        if (zeros) {
          made[i].fill((byte) 0);
        }
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
}
