package org.nccl4j.api.init.connect;

import org.nccl4j.api.spi.Connector;

/**
 * One kind of connections that {@link RuntimeConnections} makes. Called under the lock of the
 * rank's transports, so nothing waits.
 */
interface LateEnds {
  /** True if this rank may be connected with another late. */
  boolean has(int peer);

  /** Returns the transport of both connections with a peer. */
  TransportRoutes.NamedTransport route(int peer);

  /** Creates this rank's end to a peer. */
  Connector sender(int peer);

  /** Creates this rank's end from a peer. */
  Connector receiver(int peer);

  /** Takes both ends, once they are connected. */
  void connected(int peer, Connector sender, Connector receiver);
}
