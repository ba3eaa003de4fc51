package org.nccl4j.api.spi;

import org.nccl4j.device.DeviceMemory;

/** Memory that is registered with a connection. */
public interface NetMemory extends AutoCloseable {
  /** The memory. */
  DeviceMemory memory();

  /** Deregisters it; no message may be in progress in it. Calling it again does nothing. */
  @Override
  void close();
}
