package org.nccl4j.transport.net.socket.link;

/** Makes a connection's sockets, and closes them. Owned by the thread that polls it. */
public interface SocketSource {
  /**
   * Takes the next step; the link over the sockets once all are connected, else null.
   *
   * @throws org.nccl4j.device.NcclException if they cannot be connected
   */
  SocketLink poll();

  /** The end that polls has done with the sockets, or does not want them any more; called once. */
  void close();
}
