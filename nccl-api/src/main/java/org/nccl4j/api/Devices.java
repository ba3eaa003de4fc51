package org.nccl4j.api;

import org.nccl4j.device.Device;
import org.nccl4j.device.host.HostDevice;

/** The devices of this machine. */
public final class Devices {
  private Devices() {}

  /** The processor and its memory. Always there. */
  public static Device host() {
    return HostDevice.instance();
  }
}
