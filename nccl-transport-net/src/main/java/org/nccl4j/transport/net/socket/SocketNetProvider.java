package org.nccl4j.transport.net.socket;

import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.Support;

/** TCP sockets: a network that every host has. */
public final class SocketNetProvider implements NetProvider {
  private static final int PRIORITY = 100;

  /** Called by {@link java.util.ServiceLoader}. */
  public SocketNetProvider() {}

  @Override
  public String name() {
    return "Socket";
  }

  @Override
  public int priority() {
    return PRIORITY;
  }

  @Override
  public Support support(NetContext context) {
    Nics found = Nics.find(SocketSettings.of(context));
    return found.chosen().isEmpty() ? Support.no(found.text()) : Support.yes(found.text());
  }

  @Override
  public Net open(NetContext context) {
    return new SocketNet(context);
  }
}
