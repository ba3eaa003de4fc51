package org.nccl4j.transport.net.proxy;

import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;

/**
 * The two ends of a connection, for messages.
 *
 * @param self this rank
 * @param peer the other
 * @param sender rank that this rank sends for: itself, or another of its host
 */
public record EndpointNames(int self, int peer, int sender) {
  /** Creates the names of a rank that sends and receives for itself. */
  public EndpointNames(int self, int peer) {
    this(self, peer, self);
  }

  /** Returns the error for a broken connection. */
  RemoteException lost(NcclException cause) {
    String what =
        sender == self ? "" : ", over which it forwards data of rank %d".formatted(sender);
    return new RemoteException(
        ErrorId.CONNECTION,
        "rank %d has lost its connection with rank %d%s: %s"
            .formatted(self, peer, what, cause.problem()),
        "look at rank %d's output, and at the network between the two hosts".formatted(peer),
        cause);
  }

  /** Returns the error for a message that did not come as it was sent. */
  RemoteException damaged(NcclException cause) {
    return new RemoteException(
        cause.id(),
        "rank %d has received damaged data from rank %d: %s".formatted(self, peer, cause.problem()),
        cause.remedy(),
        cause);
  }
}
