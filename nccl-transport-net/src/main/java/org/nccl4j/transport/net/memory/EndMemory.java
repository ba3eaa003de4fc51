package org.nccl4j.transport.net.memory;

import org.nccl4j.api.spi.NetConnection;
import org.nccl4j.device.connection.Connection;

/** The memory of the words and slots of one end of a connection. Called by one thread at a time. */
public sealed interface EndMemory extends AutoCloseable permits HostEndMemory, GpuEndMemory {
  /** Returns the connection as the end's device sees it. */
  Connection connection();

  /**
   * Makes the slots of a channel known to the network's connection that is to carry them.
   *
   * @throws org.nccl4j.device.NcclException if it does not take them; nothing is known then
   */
  ProxyChannel channel(int number, NetConnection network);

  /**
   * Returns the handle with which another rank of this host maps the memory, where it was made for
   * that ({@link SharedEnd}).
   *
   * @throws org.nccl4j.device.NcclException if the memory cannot be shared
   */
  SharedEnd share();

  /** Returns the number of bytes. */
  long bytes();

  /** Frees it, once the network's connections have forgotten it. */
  @Override
  void close();
}
