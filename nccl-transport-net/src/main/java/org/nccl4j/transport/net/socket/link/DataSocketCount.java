package org.nccl4j.transport.net.socket.link;

/**
 * The number of sockets and threads of a connection besides its first socket.
 *
 * @param threads of the connection itself, which serve lanes
 * @param lanes sockets that they serve, all together
 * @param shared true if the communicator's threads serve the lanes
 */
public record DataSocketCount(int threads, int lanes, boolean shared) {
  /** Returns a copy with the number of lanes that the other end has decided on. */
  public DataSocketCount withLanes(int number) {
    int own = number == 0 || shared ? 0 : Math.max(1, Math.min(threads, number));
    return new DataSocketCount(own, number, shared);
  }
}
