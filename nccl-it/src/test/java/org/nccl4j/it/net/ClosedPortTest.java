package org.nccl4j.it.net;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.spi.Net;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.spi.NetSender;
import org.nccl4j.transport.net.socket.SocketNetProvider;

/** The port of a rank's sockets is open as long as something may be dialled. */
@Timeout(600)
class ClosedPortTest {
  /** Those of networks that earlier tests have left. */
  private final Set<Thread> earlier = Thread.getAllStackTraces().keySet();

  /** Connects two ranks, closes the listener, and returns whether its port is open. */
  private static boolean isOpenBehind(String failover) {
    Map<String, String> settings = Map.of("NCCL4J_NET_FAILOVER_TIMEOUT", failover);
    try (Net near = new SocketNetProvider().open(LoopbackContext.of(0, settings));
        Net far = new SocketNetProvider().open(LoopbackContext.of(1, settings))) {
      connect(near, far);
      return isOpen(connect(near, far));
    }
  }

  /** Connects one rank to the other and returns the port. */
  private static int connect(Net near, Net far) {
    try (NetListener listener = far.listen(0)) {
      NetSender sender = near.connect(0, listener.handle());
      NetReceiver[] receiver = new NetReceiver[1];
      WiredRanks.until(
          () -> {
            receiver[0] = receiver[0] == null ? listener.accept() : receiver[0];
            return sender.isConnected() & receiver[0] != null;
          });
      return port(listener);
    }
  }

  private static int port(NetListener listener) {
    return ByteBuffer.wrap(listener.handle()).getShort(2) & 0xffff;
  }

  @Test
  void itIsClosedWhereNothingCanFailover() {
    assertEquals(false, isOpenBehind("0"));
  }

  /** A selector that waits for sockets would keep the system's port open. */
  @Test
  void itIsClosedWhileItsWatchRests() {
    Map<String, String> settings =
        Map.of("NCCL4J_NET_FAILOVER_TIMEOUT", "10s", "NCCL4J_NET_SILENCE_TIMEOUT", "40ms");
    try (Net near = new SocketNetProvider().open(LoopbackContext.of(0, settings));
        Net far = new SocketNetProvider().open(LoopbackContext.of(1, settings))) {
      NetListener unused = far.listen(0);
      connect(far, near);
      WiredRanks.until(this::watchesRest);
      int port = port(unused);
      unused.close();
      WiredRanks.until(() -> !isOpen(port));
    }
  }

  private static boolean isOpen(int port) {
    try {
      return OwnPorts.listening().contains(port);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private boolean watchesRest() {
    List<Thread> watches =
        Thread.getAllStackTraces().keySet().stream()
            .filter(thread -> thread.getName().equals("nccl4j-socket-watch"))
            .filter(thread -> !earlier.contains(thread))
            .toList();
    return watches.size() == 2
        && watches.stream()
            .allMatch(
                watch ->
                    Stream.of(watch.getStackTrace())
                        .anyMatch(frame -> frame.getMethodName().equals("rest")));
  }

  @Test
  void itIsOpenWhereASocketMayFailover() {
    assertEquals(true, isOpenBehind("10s"));
  }
}
