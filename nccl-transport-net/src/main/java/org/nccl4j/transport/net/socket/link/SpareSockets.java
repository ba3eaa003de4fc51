package org.nccl4j.transport.net.socket.link;

import org.nccl4j.api.wire.DataChannel;

/** Makes further sockets for a link, in place of broken ones. Called by a {@link SocketWatch}. */
public interface SpareSockets {
  /** True if the other end has dialled a socket in place of one that may not be known as broken. */
  boolean isOffered(int index);

  /**
   * Takes the next step towards another socket; the socket once both ends know each other, else
   * null.
   *
   * @param index of the broken socket in the connection
   * @throws org.nccl4j.device.NcclException if there will never be one
   */
  DataChannel next(int index);
}
