package org.nccl4j.device.kernel;

import java.util.Map;
import java.util.Set;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.connection.Connection;

/**
 * Makes the connections that a communicator was created without, when a plan first needs them. The
 * other ranks need not plan the same: they answer at any time.
 */
@FunctionalInterface
public interface PeerConnector {
  /** All connections were made with the communicator. */
  PeerConnector NONE =
      peers -> {
        throw new InternalErrorException(
            "there is no connection to ranks " + peers, "report this as a defect");
      };

  /** Both connections with a peer. */
  record Pair(Connection send, Connection recv) {}

  /**
   * Connects with some ranks, and waits until that is done. Ranks that are connected already are
   * not connected again.
   *
   * @return the connections, by rank
   * @throws org.nccl4j.device.NcclException if a rank cannot be connected by the deadline, or the
   *     communicator has failed
   */
  Map<Integer, Pair> connect(Set<Integer> peers);
}
