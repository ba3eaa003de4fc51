package org.nccl4j.it.net;

import java.util.function.Supplier;
import org.nccl4j.api.spi.NetRequest;

/** Begins sends and receives as proxies do: again, until the connection takes them. */
final class Requests {
  private Requests() {}

  /** The request, once it could begin: not while the watch of the sockets reads. */
  static NetRequest begun(Supplier<NetRequest> begin) {
    NetRequest request = begin.get();
    while (request == null) {
      Thread.yield();
      request = begin.get();
    }
    return request;
  }
}
