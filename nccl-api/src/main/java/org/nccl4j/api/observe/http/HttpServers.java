package org.nccl4j.api.observe.http;

import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.Socket;

/** Opens servers of HTTP. */
public final class HttpServers {
  private HttpServers() {}

  /**
   * Opens a server, which does not answer before it is started.
   *
   * @throws IOException if the address cannot be listened on; no socket is left then
   */
  public static HttpServer open(InetSocketAddress address) throws IOException {
    // The JDK's server keeps its socket if it cannot bind it, until garbage is collected.
    try (Socket probe = new Socket()) {
      probe.setReuseAddress(true);
      probe.bind(address);
    }
    return HttpServer.create(address, 0);
  }
}
