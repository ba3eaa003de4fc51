package org.nccl4j.it.net;

import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetProvider;
import org.nccl4j.api.spi.Support;
import org.nccl4j.transport.net.socket.SocketNetProvider;

/** A network for tests over sockets, to be found by its name. */
public abstract class OverSockets implements NetProvider {
  private final NetProvider inner = new SocketNetProvider();

  /** Opens the network on the sockets. */
  protected abstract Net over(NetContext context, Net sockets);

  @Override
  public final int priority() {
    return 1;
  }

  @Override
  public final Support support(NetContext context) {
    return inner.support(context);
  }

  @Override
  public final Net open(NetContext context) {
    return over(context, inner.open(context));
  }
}
