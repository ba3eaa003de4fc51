package org.nccl4j.api.spi;

import java.util.OptionalInt;

/**
 * A transport whose ranks forward data of other ranks of their host (PXN), according to {@link
 * TransportContext#egressTo}. The engine gives the forwarding rank the sender's handle and connects
 * it as it does the rank's own connectors, when the communicator is created or later.
 */
public interface PxnTransport extends Transport {
  /**
   * The rank of this host whose transport of the same name forwards the data of a sender of this
   * transport; empty if the sender's own rank sends them. Called once for each sender, before its
   * handle.
   */
  OptionalInt relay(Connector sender);

  /**
   * The end that sends to a peer by this rank's own means, in the place of one that names another
   * rank, which has left.
   *
   * @throws org.nccl4j.device.NcclException as {@link #sender}
   */
  Connector ownSender(PeerInfo peer);

  /**
   * The sending end of a connection between two other ranks, whose sender has named this rank to
   * forward its data. This rank's kernels do not use its regions; its proxy belongs to this rank.
   *
   * @param from the sender, a rank of this host
   * @param to the receiver
   * @param request the handle of the sender's connector
   * @throws org.nccl4j.device.NcclException if the transport lacks memory or descriptors, or the
   *     network that the sender requests
   */
  Connector relay(PeerInfo from, PeerInfo to, byte[] request);
}
