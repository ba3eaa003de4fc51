package org.nccl4j.transport.p2p;

import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.api.spi.TransportProvider;

/**
 * P2P: ranks of one process use each other's memory by its address. NCCL_P2P_DISABLE=1 switches it
 * off.
 */
public final class P2pProvider implements TransportProvider {
  /** For {@link java.util.ServiceLoader}. */
  public P2pProvider() {}

  @Override
  public String name() {
    return "P2P";
  }

  @Override
  public int priority() {
    return 300;
  }

  @Override
  public Transport open(TransportContext context) {
    long bytes = ArenaLayout.of(context.layout(), context.peers().size()).bytes();
    return new ArenaTransport(
        name(), context, peer -> Reach.inProcess(context, peer), new LocalExchange(bytes));
  }
}
