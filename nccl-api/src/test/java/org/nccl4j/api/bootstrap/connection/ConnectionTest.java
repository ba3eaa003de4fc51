package org.nccl4j.api.bootstrap.connection;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.reflect.Field;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.bootstrap.LeftBehind;
import org.nccl4j.api.bootstrap.Ranks;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.api.wire.tls.SocketIo;

/**
 * The owner of a connection takes locks of its own, under which other threads send: it is never
 * called under the lock of the connection's output.
 */
@Timeout(600)
class ConnectionTest {
  private static final PeerCredentials TRUST = PeerCredentials.in(new byte[32]);

  private final LeftBehind.Earlier earlier = LeftBehind.Earlier.now();

  private final EventLoop loop;
  private final BlockingQueue<String> events = new LinkedBlockingQueue<>();
  private ServerSocketChannel server;
  private Connection dialled;
  private Connection accepted;
  private final Faulty wire = new Faulty();

  ConnectionTest() throws IOException {
    loop = EventLoop.acquire();
  }

  /** The socket's bytes, until something fails. */
  private static final class Faulty implements SocketIo {
    private SocketIo plain;
    private volatile boolean keepsBytes; // as TLS does until it may send them
    private volatile boolean writesFail;
    private volatile boolean flushesFail;

    @Override
    public int read(ByteBuffer target) throws IOException {
      return plain.read(target);
    }

    @Override
    public int write(ByteBuffer source) throws IOException {
      if (writesFail) {
        throw new IOException("no write");
      }
      return plain.write(source);
    }

    @Override
    public boolean flush() throws IOException {
      if (flushesFail) {
        throw new IOException("no flush");
      }
      return !keepsBytes;
    }

    @Override
    public boolean isFlushed() {
      return !keepsBytes;
    }

    @Override
    public boolean holdsData() {
      return false;
    }

    @Override
    public boolean takesData() {
      return false;
    }
  }

  /** Notes each call and whether the lock was held. */
  private final class Noting implements Connection.Owner {
    private final String name;

    Noting(String name) {
      this.name = name;
    }

    @Override
    public void authenticated(Connection connection) {
      note(connection, "authenticated");
      connection.handTo(this, 100);
    }

    @Override
    public void received(Connection connection, FrameType type, MessageReader body) {
      note(connection, "received " + type);
    }

    @Override
    public void closed(Connection connection, IOException reason) {
      note(connection, "closed");
    }

    private void note(Connection connection, String what) {
      boolean locked = Thread.holdsLock(lockOf(connection));
      events.add(name + " " + what + (locked ? " under the lock" : ""));
    }
  }

  private static Object lockOf(Connection connection) {
    try {
      Field out = Connection.class.getDeclaredField("out");
      out.setAccessible(true);
      return out.get(connection);
    } catch (ReflectiveOperationException e) {
      throw new AssertionError(e);
    }
  }

  private interface Task<T> {
    T run() throws Exception;
  }

  private <T> T onLoop(Task<T> task) throws Exception {
    CompletableFuture<T> result = new CompletableFuture<>();
    loop.execute(
        () -> {
          try {
            result.complete(task.run());
          } catch (Exception e) {
            result.completeExceptionally(e);
          }
        });
    return result.get(Ranks.LONG.toSeconds(), TimeUnit.SECONDS);
  }

  @BeforeEach
  void connect() throws Exception {
    server = ServerSocketChannel.open();
    server.bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
    InetSocketAddress address = (InetSocketAddress) server.getLocalAddress();
    dialled =
        onLoop(
            () ->
                Connection.dial(
                    loop,
                    address,
                    TRUST,
                    Handshake.Service.ROOT,
                    new byte[0],
                    new Noting("dialled")));
    SocketChannel channel = server.accept();
    wire.plain = new SocketIo.Plain(channel);
    Handshake handshake = TRUST.server(Handshake.Service.ROOT);
    accepted =
        onLoop(() -> Connection.accepted(loop, channel, wire, handshake, new Noting("accepted")));
    expect("dialled authenticated", "accepted authenticated");
  }

  /** In any order. */
  private void expect(String... all) throws InterruptedException {
    for (int i = 0; i < all.length; i++) {
      String event = Ranks.next(events);
      assertTrue(
          event != null && List.of(all).contains(event),
          () -> event + " instead of " + List.of(all));
    }
  }

  @AfterEach
  void end() throws Exception {
    onLoop(
        () -> {
          dialled.close();
          accepted.close();
          return null;
        });
    server.close();
    loop.release();
    earlier.nothingElse();
  }

  private static ByteBuffer message() {
    return new MessageWriter(FrameType.HEARTBEAT).done();
  }

  @Test
  void aMessageArrives() throws Exception {
    dialled.send(message());
    expect("accepted received HEARTBEAT");
  }

  @Test
  void aWriteFailsForASender() throws Exception {
    wire.writesFail = true;
    accepted.send(message());
    expect("accepted closed", "dialled closed");
  }

  @Test
  void aWriteFailsForTheLoop() throws Exception {
    wire.writesFail = true;
    onLoop(
        () -> {
          accepted.send(message());
          return null;
        });
    expect("accepted closed", "dialled closed");
  }

  /** A read lets kept bytes go, as an answer of TLS does. */
  @Test
  void aFlushFailsBehindARead() throws Exception {
    wire.keepsBytes = true;
    wire.flushesFail = true;
    dialled.send(message());
    expect("accepted received HEARTBEAT", "accepted closed", "dialled closed");
  }

  @Test
  void theOtherSideCloses() throws Exception {
    onLoop(
        () -> {
          dialled.close();
          return null;
        });
    expect("accepted closed");
  }
}
