package org.nccl4j.transport.net.socket;

import java.nio.channels.SocketChannel;

/** A source that has no further sockets. */
final class NoSpareSockets implements SpareSockets {
  @Override
  public boolean isOffered(int index) {
    return false;
  }

  @Override
  public SocketChannel next(int index) {
    return null;
  }
}
