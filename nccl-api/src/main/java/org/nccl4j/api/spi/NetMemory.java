package org.nccl4j.api.spi;

import org.nccl4j.device.DeviceMemory;

/** Memory that is registered with a connection. */
public interface NetMemory extends AutoCloseable {
  /** The memory. */
  DeviceMemory memory();

  /** Deregisters it; no message may be in progress in it. Calling it again does nothing. */
  @Override
  void close();

  /**
   * Does what {@link #close} does, perhaps after it has returned: a network whose driver takes long
   * for it uses another thread, since the caller serves other connections too.
   */
  default void closeSoon() {
    close();
  }
}
