package org.nccl4j.api.wire;

import java.io.Closeable;
import java.io.IOException;
import java.lang.System.Logger.Level;
import java.net.InetSocketAddress;
import java.nio.channels.ClosedChannelException;
import org.nccl4j.device.DebugLog;

/** Texts of addresses and failures for messages, and closing that does not fail. */
public final class Sockets {
  private static final System.Logger LOG = DebugLog.of("NET");

  private Sockets() {}

  /** An address with its port, such as "10.0.0.1:29500" or "[fd00::1]:29500". */
  public static String text(InetSocketAddress address) {
    if (address.isUnresolved()) {
      return address.getHostString() + ":" + address.getPort();
    }
    String literal = address.getAddress().getHostAddress();
    return (literal.indexOf(':') >= 0 ? "[" + literal + "]" : literal) + ":" + address.getPort();
  }

  /** Why a connection failed, as a clause: the system's reason with its symbol. */
  public static String reason(IOException e) {
    if (e instanceof ClosedChannelException) {
      return "it closed the connection";
    }
    String text = String.valueOf(e.getMessage());
    return switch (text) {
      case "Connection refused" -> text + " (ECONNREFUSED)";
      case "Connection timed out" -> text + " (ETIMEDOUT)";
      case "No route to host" -> text + " (EHOSTUNREACH)";
      case "Host is unreachable" -> text + " (EHOSTUNREACH)";
      case "Network is unreachable" -> text + " (ENETUNREACH)";
      case "Connection reset by peer", "Connection reset" -> text + " (ECONNRESET)";
      case "Too many open files" -> text + " (EMFILE); raise ulimit -n";
      default -> text;
    };
  }

  /** Closes a socket; null is closed already. */
  public static void close(Closeable socket) {
    if (socket == null) {
      return;
    }
    try {
      socket.close();
    } catch (IOException e) {
      LOG.log(Level.DEBUG, "closing a socket", e);
    }
  }
}
