package org.nccl4j.transport.net.socket.link;

/** Makes a connection's sockets, and closes them. Owned by the thread that polls it. */
public interface SocketSource {
  /**
   * Takes the next step; the link over the sockets once all are connected, else null.
   *
   * @throws org.nccl4j.device.NcclException if they cannot be connected
   */
  SocketLink poll();

  /**
   * Relative shares of a message's bytes that lanes carry, by lane, once all are connected: the
   * same at both ends. Empty if all carry the same.
   */
  default int[] shares() {
    return new int[0];
  }

  /** The end that polls has done with the sockets, or does not want them any more; called once. */
  void close();
}
