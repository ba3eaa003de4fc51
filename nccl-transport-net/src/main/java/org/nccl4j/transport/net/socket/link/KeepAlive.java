package org.nccl4j.transport.net.socket.link;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.net.SocketOption;
import java.net.StandardSocketOptions;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import org.nccl4j.device.DebugLog;

/**
 * Has the operating system see whether idle sockets are alive, which takes no thread: it sends
 * probes over a socket that has been idle, which keep firewalls from forgetting it, and ends one
 * that does not answer.
 */
final class KeepAlive {
  private static final System.Logger LOG = DebugLog.of("NET");

  /** Probes without an answer after which a socket ends. */
  private static final int PROBES = 4;

  private KeepAlive() {}

  /**
   * Has a socket probed once it has been idle for some time, and ended after as long again.
   *
   * @param idle zero for no probes
   */
  static void set(SocketChannel socket, Duration idle) {
    if (idle.isZero()) {
      return;
    }
    int seconds = (int) Math.min(Short.MAX_VALUE, Math.max(1, idle.toSeconds()));
    try {
      socket.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
      // Of module jdk.net, which may be absent: the system's own times are then used.
      for (SocketOption<?> option : socket.supportedOptions()) {
        switch (option.name()) {
          case "TCP_KEEPIDLE" -> set(socket, option, seconds);
          case "TCP_KEEPINTERVAL" -> set(socket, option, Math.max(1, seconds / PROBES));
          case "TCP_KEEPCOUNT" -> set(socket, option, PROBES);
          default -> {}
        }
      }
    } catch (IOException | UnsupportedOperationException e) {
      LOG.log(Level.DEBUG, "idle sockets are not probed", e);
    }
  }

  @SuppressWarnings("unchecked") // each of the three is an Integer
  private static void set(SocketChannel socket, SocketOption<?> option, int value)
      throws IOException {
    socket.setOption((SocketOption<Integer>) option, value);
  }
}
