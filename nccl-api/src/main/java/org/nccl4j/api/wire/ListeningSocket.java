package org.nccl4j.api.wire;

import java.io.IOException;
import java.net.BindException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.ServerSocketChannel;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;

/** Opens listening sockets on allowed ports. */
public final class ListeningSocket {
  private static final int BACKLOG = 1024;

  private ListeningSocket() {}

  /**
   * Listens on the first free port of a range, in blocking mode.
   *
   * @param owner what listens, for messages, such as "the bootstrap"
   * @param host one address of this host, or null for all
   * @throws SystemErrorException naming address, ports and the system's reason
   */
  public static ServerSocketChannel open(String owner, InetAddress host, PortRange ports) {
    IOException last = null;
    for (int port = ports.first(); port <= ports.last(); port++) {
      try {
        return bound(new InetSocketAddress(host, port));
      } catch (BindException e) {
        last = e;
        if (!inUse(e)) {
          break;
        }
      } catch (IOException e) {
        last = e;
        break;
      }
    }
    throw failure(owner, host, ports, last);
  }

  /** The port of a socket. */
  public static int port(ServerSocketChannel channel) {
    return channel.socket().getLocalPort();
  }

  private static ServerSocketChannel bound(InetSocketAddress address) throws IOException {
    ServerSocketChannel channel = ServerSocketChannel.open();
    try {
      return channel.bind(address, BACKLOG);
    } catch (IOException | RuntimeException e) {
      channel.close();
      throw e;
    }
  }

  private static boolean inUse(BindException e) {
    return String.valueOf(e.getMessage()).contains("in use");
  }

  private static SystemErrorException failure(
      String owner, InetAddress host, PortRange ports, IOException e) {
    String where = host == null ? "any address" : host.getHostAddress();
    String problem =
        "%s cannot listen on %s, port %s: %s".formatted(owner, where, ports, e.getMessage());
    if (e instanceof BindException bind && inUse(bind)) {
      return new SystemErrorException(
          ErrorId.PORT,
          ports.first() == ports.last()
              ? problem + " (EADDRINUSE)"
              : problem + " (EADDRINUSE, each of these %d ports)".formatted(ports.count()),
          "end the program that has the port, choose another with NCCL_COMM_ID=host:port, or allow"
              + " more with NCCL4J_BOOTSTRAP_PORTS=first-last: a host needs one for each process of"
              + " each communicator, one more for each if they use a network, and one for each"
              + " unique id that is created there",
          e);
    }
    if (e instanceof BindException) {
      return new SystemErrorException(
          ErrorId.PORT,
          problem,
          "choose a port that this user may use; if NCCL_COMM_ID is set, run rank 0 on the host"
              + " that it names, with an address that this host has",
          e);
    }
    return new SystemErrorException(
        ErrorId.PORT,
        problem,
        "raise the limit of open files (ulimit -n) if that is the reason",
        e);
  }
}
