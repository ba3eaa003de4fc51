package org.nccl4j.transport.net.ib;

import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.transport.net.ib.device.RegistrationCache;

/** Memory registered with the device of a connection. */
final class IbMemory implements NetMemory {
  private final DeviceMemory memory;
  private final RegistrationCache.Region region;
  private boolean closed;

  IbMemory(DeviceMemory memory, RegistrationCache.Region region) {
    this.memory = memory;
    this.region = region;
  }

  @Override
  public DeviceMemory memory() {
    return memory;
  }

  int localKey() {
    return region.localKey();
  }

  int remoteKey() {
    return region.remoteKey();
  }

  boolean isClosed() {
    return closed;
  }

  @Override
  public void close() {
    if (!closed) {
      closed = true;
      region.close();
    }
  }
}
