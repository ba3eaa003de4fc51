package org.nccl4j.transport.net.plugin;

import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.DeviceMemory;

/** Memory that is registered with a connection through a plug-in. */
final class PluginMemory implements NetMemory {
  private final PluginConnection connection;
  private final DeviceMemory memory;
  private final long address;
  private final long handle;

  PluginMemory(PluginConnection connection, DeviceMemory memory, long handle) {
    this.connection = connection;
    this.memory = memory;
    this.address = memory.address();
    this.handle = handle;
  }

  @Override
  public DeviceMemory memory() {
    return memory;
  }

  long address() {
    return address;
  }

  /** The plug-in's handle; it may be 0. */
  long handle() {
    return handle;
  }

  @Override
  public void close() {
    connection.deregister(this);
  }
}
