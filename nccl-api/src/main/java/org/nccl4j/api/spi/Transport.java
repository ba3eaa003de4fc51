package org.nccl4j.api.spi;

import java.util.List;

/** Creates one provider's connections of one communicator. Called by one thread at a time. */
public interface Transport extends AutoCloseable {
  /**
   * Checks whether this rank can reach a peer in both directions. Must neither wait nor contact the
   * peer; the engine calls it on both ends and needs yes from both.
   */
  Support canConnect(PeerInfo peer);

  /**
   * The sending end of a connection to a peer.
   *
   * @throws org.nccl4j.device.NcclException if the transport lacks memory or descriptors, or the
   *     peer cannot be connected
   */
  Connector sender(PeerInfo peer);

  /**
   * The receiving end of a connection from a peer.
   *
   * @throws org.nccl4j.device.NcclException if the transport lacks memory or descriptors, or the
   *     peer cannot be connected
   */
  Connector receiver(PeerInfo peer);

  /**
   * Creates a connector as {@link #sender} does, for a connection whose slots the processor can
   * access: they are in host memory even if those of other connections are not.
   */
  default Connector hostSender(PeerInfo peer) {
    return sender(peer);
  }

  /**
   * Creates a connector as {@link #receiver} does, with slots in host memory as for {@link
   * #hostSender}.
   */
  default Connector hostReceiver(PeerInfo peer) {
    return receiver(peer);
  }

  /**
   * The approximate number of descriptors that this process keeps open for both connections with
   * each of some peers; 0 if unknown. The engine calls it before it creates connectors.
   */
  default int descriptors(List<PeerInfo> peers) {
    return 0;
  }

  /** Bytes of device memory that its connections hold on this rank. */
  default long memoryBytes() {
    return 0;
  }

  /**
   * Frees its resources and its connectors, which then cannot be used. Other ranks may still work:
   * memory of this rank that they have mapped stays valid until they close too. Does not wait for
   * them. Calling it again does nothing.
   */
  @Override
  void close();
}
