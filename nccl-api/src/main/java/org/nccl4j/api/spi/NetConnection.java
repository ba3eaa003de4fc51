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
   * Makes memory known, so that messages can be in it: of the host, or of a GPU where the device
   * has {@link NetDevice.Pointers#CUDA}. It must not be freed before it is closed.
   *
   * @throws org.nccl4j.device.NcclException if it cannot be registered, such as beyond the limit of
   *     locked memory
   */
  NetMemory register(DeviceMemory memory);

  /**
   * Makes a GPU's memory known by a dma-buf, where the device has {@link
   * NetDevice.Pointers#DMA_BUF}.
   *
   * @param memory whose addresses messages will use
   * @param fd dma-buf that holds the memory; stays the caller's
   * @param offset where in the dma-buf the memory begins, in bytes
   * @throws org.nccl4j.device.NcclException if it cannot be registered
   */
  NetMemory registerDmaBuf(DeviceMemory memory, int fd, long offset);

  /**
   * Ends the connection, with whatever is under way. The other end's calls then throw, unless it
   * had nothing left to do. Calling it again does nothing.
   */
  @Override
  void close();
}
