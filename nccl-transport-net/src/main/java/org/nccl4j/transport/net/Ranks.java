package org.nccl4j.transport.net;

import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;

/**
 * The two ends of a connection, for messages.
 *
 * @param self this rank
 * @param peer the other
 */
record Ranks(int self, int peer) {
  /** What a broken connection means. */
  RemoteException lost(NcclException cause) {
    return new RemoteException(
        ErrorId.CONNECTION,
        "rank %d has lost its connection with rank %d: %s".formatted(self, peer, cause.problem()),
        "look at rank %d's output, and at the network between the two hosts".formatted(peer),
        cause);
  }
}
