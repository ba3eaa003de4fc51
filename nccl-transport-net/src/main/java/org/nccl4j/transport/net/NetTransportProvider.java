package org.nccl4j.transport.net;

import org.nccl4j.api.spi.Transport;
import org.nccl4j.api.spi.TransportContext;
import org.nccl4j.api.spi.TransportProvider;

/** Connections over a network: between hosts, and within one where nothing better is allowed. */
public final class NetTransportProvider implements TransportProvider {
  private static final int PRIORITY = 100;

  /** Called by {@link java.util.ServiceLoader}. */
  public NetTransportProvider() {}

  @Override
  public String name() {
    return "NET";
  }

  @Override
  public int priority() {
    return PRIORITY;
  }

  @Override
  public boolean crossesHosts() {
    return true;
  }

  @Override
  public Transport open(TransportContext context) {
    return new NetTransport(context);
  }
}
