package org.nccl4j.api.bootstrap.root;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.bootstrap.LeftBehind;
import org.nccl4j.api.bootstrap.Ranks;
import org.nccl4j.api.bootstrap.connection.Connection;
import org.nccl4j.api.bootstrap.connection.ConnectionDialer;
import org.nccl4j.api.bootstrap.connection.ConnectionListener;
import org.nccl4j.api.bootstrap.connection.EventLoop;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.ListeningSocket;
import org.nccl4j.api.wire.PortRange;
import org.nccl4j.api.wire.tls.PeerCredentials;

class HeartbeatMonitorTest {
  private static final Duration FOREVER = Duration.ofMillis(Long.MAX_VALUE);
  private static final PeerCredentials TRUST = PeerCredentials.in(new byte[16]);

  private final LeftBehind.Earlier earlier = LeftBehind.Earlier.now();

  private final EventLoop loop = EventLoop.acquire();
  private final BlockingQueue<Connection> reached = new LinkedBlockingQueue<>();
  private final BlockingQueue<Connection> silent = new LinkedBlockingQueue<>();

  @AfterEach
  void nothingIsLeft() throws InterruptedException {
    earlier.nothingElse();
  }

  /** More than two looks pass before its silence is noticed. */
  @Test
  void aRankThatMayBeSilentForeverDoesNotHideTheSilenceOfAnother() throws Exception {
    ServerSocketChannel socket =
        ListeningSocket.open("a test", InetAddress.getLoopbackAddress(), PortRange.ANY);
    int port = ListeningSocket.port(socket);
    ConnectionListener listener =
        new ConnectionListener(
            loop, socket, Handshake.Service.ROOT, TRUST, Ranks.LONG, (from, type, first) -> {});
    loop.execute(listener::start);
    Connection patient = dial(port);
    Connection other = dial(port);
    HeartbeatMonitor beats =
        new HeartbeatMonitor(loop, (connection, length, allowed) -> silent.add(connection));
    loop.execute(
        () -> {
          beats.heard(patient, FOREVER);
          beats.heard(other, Duration.ofMillis(300));
        });
    assertEquals(other, Ranks.next(silent));
    loop.execute(
        () -> {
          beats.close();
          patient.close();
          other.close();
          listener.close();
        });
    loop.release();
  }

  private Connection dial(int port) throws InterruptedException {
    List<InetSocketAddress> to =
        List.of(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
    ConnectionDialer dialer =
        new ConnectionDialer(loop, to, Handshake.Service.ROOT, TRUST, 1, new Caller());
    loop.execute(() -> dialer.start(Ranks.LONG));
    Connection connection = Ranks.next(reached);
    assertNotNull(connection);
    return connection;
  }

  private final class Caller implements ConnectionDialer.Outcome {
    @Override
    public void reached(Connection connection) {
      reached.add(connection);
    }

    @Override
    public void failed(String reasons) {
      throw new AssertionError(reasons);
    }
  }
}
