package org.nccl4j.transport.net.socket.link;

import org.nccl4j.api.wire.DataChannel;

/** A source that has no further sockets. */
public final class NoSpareSockets implements SpareSockets {
  @Override
  public boolean isOffered(int index) {
    return false;
  }

  @Override
  public DataChannel next(int index) {
    return null;
  }
}
