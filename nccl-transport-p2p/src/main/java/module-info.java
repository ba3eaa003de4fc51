import org.nccl4j.transport.p2p.P2pProvider;
import org.nccl4j.transport.p2p.ShmProvider;

/** Connections between ranks that reach the same memory: in one process, or on one machine. */
module org.nccl4j.transport.p2p {
  requires transitive org.nccl4j.api;

  exports org.nccl4j.transport.p2p to
      org.nccl4j.it;

  provides org.nccl4j.api.spi.TransportProvider with
      P2pProvider,
      ShmProvider;
}
