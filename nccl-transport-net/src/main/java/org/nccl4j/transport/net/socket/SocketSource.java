package org.nccl4j.transport.net.socket;

import java.nio.channels.SocketChannel;

/** Makes a connection's sockets, and closes them. Owned by the thread that polls it. */
interface SocketSource {
  /**
   * Takes the next step; the sockets once all are connected, else null.
   *
   * @throws org.nccl4j.device.NcclException if they cannot be connected
   */
  SocketChannel[] poll();

  /** The end that polls has done with the sockets, or does not want them any more; called once. */
  void close();
}
