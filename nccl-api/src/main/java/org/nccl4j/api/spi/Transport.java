package org.nccl4j.api.spi;

import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;

/** One provider's connections of one communicator. Called by one thread at a time. */
public interface Transport extends AutoCloseable {
  /**
   * Answers whether this rank can reach a peer in both directions. Neither waits nor asks the peer;
   * the engine asks both ends and needs both answers to be yes.
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
   * Creates a connector as {@link #sender} does, for a connection whose slots the processor also
   * reaches: they lie in host memory, wherever the slots of other connections are.
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
   * The sending end of a connection between two other ranks, whose sender has said that this rank
   * carries it ({@link Connector#relay()}). It has no regions that this rank's kernels use; its
   * proxy belongs to this rank.
   *
   * @param from the sender, a rank of this host
   * @param to the receiver
   * @param request the handle that the sender's connector gave
   * @throws org.nccl4j.device.NcclException if the transport lacks memory or descriptors, or it
   *     carries nothing
   */
  default Connector relay(PeerInfo from, PeerInfo to, byte[] request) {
    throw new InvalidUsageException(
        ErrorId.PLUGIN,
        "rank %d asks for its data to be forwarded by a transport that does not forward"
            .formatted(from.rank()),
        "use the same versions of all transports on all ranks");
  }

  /**
   * Descriptors that this process keeps open for both connections with a peer, about; 0 where that
   * is not known. The engine asks before it makes connectors.
   */
  default int descriptors(PeerInfo peer) {
    return 0;
  }

  /** Bytes of device memory that its connections hold on this rank. */
  default long memoryBytes() {
    return 0;
  }

  /**
   * Frees what it holds, its connectors included; afterwards nothing can be asked of it. The other
   * ranks may still be at work: of memory that lies here, their views stay whole until they close
   * too. Does not wait for them. Calling it again does nothing.
   */
  @Override
  void close();
}
