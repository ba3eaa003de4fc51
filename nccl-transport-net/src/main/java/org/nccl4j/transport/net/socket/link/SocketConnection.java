package org.nccl4j.transport.net.socket.link;

import org.nccl4j.api.spi.NetConnection;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/** The common part of both ends of a connection. */
abstract class SocketConnection implements NetConnection {
  /** Messages that can be under way. */
  static final int REQUESTS = 32;

  private final SocketSource source;
  private boolean closed;

  SocketConnection(SocketSource source) {
    this.source = source;
  }

  final boolean isClosed() {
    return closed;
  }

  /** Returns the number of the connection's sockets. */
  abstract int sockets();

  @Override
  public NetMemory register(DeviceMemory memory) {
    return new SocketMemory(memory, sockets());
  }

  @Override
  public final boolean registersFreely() {
    return true;
  }

  @Override
  public NetMemory registerDmaBuf(DeviceMemory memory, int fd, long offset) {
    throw new InvalidArgumentException(
        ErrorId.BUFFER,
        "sockets cannot use a dma-buf",
        "register host memory, and copy through it");
  }

  /** Ends what is under way. */
  abstract void end();

  @Override
  public final void close() {
    if (!closed) {
      closed = true;
      try {
        end();
      } finally {
        source.close();
      }
    }
  }
}
