package org.nccl4j.api;

import java.nio.ByteBuffer;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.HostDevice;

/** The devices of this machine. */
public final class Devices {
  private Devices() {}

  /** The processor and its memory. Always there. */
  public static Device host() {
    return HostDevice.instance();
  }

  /**
   * The bytes of a direct buffer, from its position to its limit, as memory of the host.
   *
   * @throws org.nccl4j.device.InvalidArgumentException for a heap buffer or a read-only one
   */
  public static DeviceMemory wrap(ByteBuffer direct) {
    return HostDevice.instance().wrap(direct);
  }
}
