package org.nccl4j.api.spi;

import org.nccl4j.device.DeviceMemory;

/**
 * One end of a connection between two ranks. Owned by one thread at a time.
 *
 * <p>Methods marked so by {@link org.nccl4j.device.HotPath} allocate nothing once the connection
 * has been used for a while.
 */
public interface NetConnection extends AutoCloseable {
  /**
   * Registers memory for messages: of the host, or of a GPU if the device has {@link
   * NetDevice.Pointers#CUDA}. The memory must not be freed before the result is closed.
   *
   * @throws org.nccl4j.device.NcclException if it cannot be registered, such as beyond the limit of
   *     locked memory
   */
  NetMemory register(DeviceMemory memory);

  /**
   * Registers memory that a user has registered with communicators. It may be freed before the
   * result is closed, if no message uses it any more, and other memory may be at its addresses
   * then: that belongs to another registration. So a network that registers memory once for several
   * connections may do so for the same registration only.
   *
   * @param registration the user's, told from others by its identity
   * @throws org.nccl4j.device.NcclException as by the other method
   */
  default NetMemory register(DeviceMemory memory, Object registration) {
    return register(memory);
  }

  /**
   * True if registered memory is neither locked nor known to a device, so that registering costs
   * little, and memory may be freed before the result is closed if no message uses it any more.
   * Then large messages are sent from the users' buffers, registered or not.
   */
  default boolean registersFreely() {
    return false;
  }

  /**
   * Registers a GPU's memory by a dma-buf, if the device has {@link NetDevice.Pointers#DMA_BUF}.
   *
   * @param memory whose addresses messages will use
   * @param fd dma-buf that holds the memory; stays the caller's
   * @param offset of the memory in the dma-buf, in bytes
   * @throws org.nccl4j.device.NcclException if it cannot be registered
   */
  NetMemory registerDmaBuf(DeviceMemory memory, int fd, long offset);

  /**
   * Ends the connection and the messages in progress. The other end's calls then throw, unless it
   * had nothing left to do. Calling it again does nothing.
   */
  @Override
  void close();
}
