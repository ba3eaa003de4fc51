package org.nccl4j.api.bootstrap.connection;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.ProtocolException;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.CancelledKeyException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SelectionKey;
import java.nio.channels.SocketChannel;
import java.util.ArrayDeque;
import java.util.concurrent.atomic.AtomicBoolean;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.Sockets;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.api.wire.tls.SocketIo;
import org.nccl4j.device.DebugLog;

/**
 * A TCP connection that begins with the {@link Handshake} and then carries messages, each bounded.
 *
 * <p>Owner thread: the loop's, but for {@link #send}, which any thread may call once the handshake
 * is over, and for {@link #finish}. Messages that arrive are handed to the current {@link Owner} on
 * the loop's thread.
 */
public final class Connection implements EventLoop.Handler {
  /** Receives the messages of a connection. */
  public interface Owner {
    /**
     * True if this side, which accepts, awaits a request; if not, the connection is closed before
     * the other side receives this side's proof.
     */
    default boolean awaits(Connection connection, ByteBuffer request) {
      return true;
    }

    /** The handshake is over: the other side knows the secret. */
    default void authenticated(Connection connection) {}

    /** A message has come. */
    void received(Connection connection, FrameType type, MessageReader body)
        throws ProtocolException;

    /** Called when a connection has ended, not through our doing; the reason is for messages. */
    void closed(Connection connection, IOException reason);
  }

  private static final int READ_BYTES = 64 << 10;
  private static final int READS_AT_ONCE = 16;

  /** The first byte of an alert of TLS. */
  private static final byte TLS_ALERT = 21;

  private final EventLoop loop;
  private final SocketChannel channel;
  private final SocketIo wire;
  private final Handshake handshake;
  private final ArrayDeque<ByteBuffer> out = new ArrayDeque<>();
  private final AtomicBoolean ended = new AtomicBoolean();
  private String peer = "an address not connected";
  private SelectionKey key;
  private Owner owner;
  private ByteBuffer in;
  private FrameType type;
  private int maxMessageBytes;
  private volatile boolean closeWhenFlushed;
  private volatile boolean draining;
  private boolean connected;

  private Connection(
      EventLoop loop, SocketChannel channel, SocketIo wire, Handshake handshake, Owner owner) {
    this.loop = loop;
    this.channel = channel;
    this.wire = wire;
    this.handshake = handshake;
    this.owner = owner;
    in = ByteBuffer.allocate(handshake.wanted());
  }

  /** Begins to connect; on the loop's thread. A failure is reported to the owner or thrown. */
  static Connection dial(
      EventLoop loop,
      InetSocketAddress address,
      PeerCredentials trust,
      Handshake.Service service,
      byte[] request,
      Owner owner)
      throws IOException {
    SocketChannel channel = SocketChannel.open();
    try {
      Connection connection =
          new Connection(
              loop, channel, trust.wire(channel, true), trust.client(service, request), owner);
      connection.configure();
      connection.key = loop.register(channel, SelectionKey.OP_CONNECT, connection);
      if (channel.connect(address)) {
        connection.connected();
      }
      return connection;
    } catch (IllegalArgumentException e) {
      channel.close();
      // For example an IPv6 address, with java.net.preferIPv4Stack set.
      throw new IOException("this JVM cannot connect to such an address: " + e, e);
    } catch (IOException | RuntimeException e) {
      channel.close();
      throw e;
    }
  }

  /** Takes over an accepted channel; on the loop's thread. */
  static Connection accepted(
      EventLoop loop,
      SocketChannel channel,
      PeerCredentials trust,
      Handshake.Service service,
      Owner owner)
      throws IOException {
    return accepted(loop, channel, trust.wire(channel, false), trust.server(service), owner);
  }

  /** Takes over an accepted channel, whose bytes go another way. */
  static Connection accepted(
      EventLoop loop, SocketChannel channel, SocketIo wire, Handshake handshake, Owner owner)
      throws IOException {
    Connection connection = new Connection(loop, channel, wire, handshake, owner);
    connection.configure();
    connection.peer = Sockets.text((InetSocketAddress) channel.getRemoteAddress());
    connection.key = loop.register(channel, SelectionKey.OP_READ, connection);
    return connection;
  }

  private void configure() throws IOException {
    channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
    channel.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
  }

  /**
   * Hands the connection to a new owner, with a limit on the length of a message; on the loop's
   * thread.
   */
  public void handTo(Owner newOwner, int maxBytes) {
    owner = newOwner;
    maxMessageBytes = maxBytes;
  }

  /** True if the other side has seen our proof and not answered. */
  boolean proving() {
    return handshake.proving();
  }

  /** True if it was accepted and then closed before our proof was seen. */
  boolean crowdedOut() {
    return connected && !handshake.proving() && !handshake.done();
  }

  /** The address of this side; null if it is closed. */
  public InetSocketAddress localAddress() {
    try {
      return (InetSocketAddress) channel.getLocalAddress();
    } catch (IOException e) {
      return null;
    }
  }

  /** The address of the other side, for messages. */
  String peer() {
    return peer;
  }

  /** Sends a whole message, now or as soon as there is room; does not wait. */
  public void send(ByteBuffer message) {
    synchronized (out) {
      out.add(message);
      if (out.size() > 1) {
        return;
      }
      try {
        if (flushed()) {
          return;
        }
      } catch (IOException e) {
        loop.execute(() -> lost(e));
        return;
      }
    }
    loop.execute(this::awaitRoom);
  }

  /** Sends what is left and a goodbye, and closes; does not wait. */
  public void finish(ByteBuffer last) {
    send(last);
    synchronized (out) {
      closeWhenFlushed = true;
      if (out.isEmpty() && wire.isFlushed()) {
        drain();
      }
    }
    loop.execute(() -> loop.after(EventLoop.LINGER, this::close));
  }

  /**
   * Ends this side's half. Data that the other side has sent meanwhile are read until it closes
   * too: a socket that is closed with unread data is reset, and the goodbye is lost with it.
   */
  private void drain() {
    draining = true;
    ended.set(true);
    try {
      channel.shutdownOutput();
    } catch (IOException e) {
      closeChannel();
    }
  }

  private void readToTheEnd() {
    try {
      ByteBuffer unwanted = ByteBuffer.allocate(READ_BYTES);
      int got;
      do {
        got = channel.read(unwanted.clear());
      } while (got > 0);
      if (got < 0) {
        closeChannel();
      }
    } catch (IOException e) {
      closeChannel();
    }
  }

  /** Closes without a notification. */
  public void close() {
    ended.set(true);
    closeChannel();
  }

  private void closeChannel() {
    try {
      channel.close();
    } catch (IOException e) {
      DebugLog.of("BOOTSTRAP").log(System.Logger.Level.DEBUG, "closing a connection", e);
    }
    loop.wakeup();
  }

  public boolean isOpen() {
    return !ended.get();
  }

  @Override
  public void ready(SelectionKey selected) {
    if (draining) {
      readToTheEnd();
      return;
    }
    try {
      if (selected.isConnectable()) {
        channel.finishConnect();
        connected();
        return;
      }
      if (selected.isWritable()) {
        awaitRoom();
      }
      if (selected.isValid() && selected.isReadable()) {
        read();
      }
    } catch (IOException e) {
      lost(e);
    } catch (CancelledKeyException e) {
      lost(new ClosedChannelException());
    }
  }

  private void connected() {
    connected = true;
    key.interestOps(SelectionKey.OP_READ);
    send(ByteBuffer.wrap(handshake.opening()));
  }

  private void read() throws IOException {
    for (int i = 0; (i < READS_AT_ONCE || wire.holdsData()) && channel.isOpen(); i++) {
      int wanted = in.remaining();
      in.limit(in.position() + Math.min(wanted, READ_BYTES));
      int got = wire.read(in);
      in.limit(in.position() + wanted - Math.max(got, 0));
      if (got < 0) {
        throw asksForTls()
            ? new ProtocolException("it asks for TLS; set NCCL4J_TLS_CERT on all ranks or on none")
            : new ClosedChannelException();
      }
      if (got == 0) {
        goOnWriting();
        return;
      }
      while (!in.hasRemaining() && channel.isOpen()) {
        consume();
      }
    }
  }

  /** True if all that came in the place of a greeting is an alert of TLS. */
  private boolean asksForTls() {
    return !handshake.done() && in.position() > 0 && in.get(0) == TLS_ALERT;
  }

  /** A piece of the expected size has come: a step of the handshake, a header, or a body. */
  private void consume() throws IOException {
    if (!handshake.done()) {
      byte[] answer = handshake.step(in.array());
      if (handshake.done() && handshake.isServer() && !owner.awaits(this, handshake.request())) {
        close();
        return;
      }
      in = ByteBuffer.allocate(handshake.done() ? MessageWriter.HEADER_BYTES : handshake.wanted());
      if (answer.length > 0) {
        send(ByteBuffer.wrap(answer));
      }
      if (handshake.done()) {
        owner.authenticated(this);
      }
    } else if (type == null) {
      int length = in.flip().getInt();
      type = FrameType.of(in.get());
      if (length < 0 || length > maxMessageBytes) {
        throw new ProtocolException(
            "it announced a message of " + length + " bytes, more than " + maxMessageBytes);
      }
      in = ByteBuffer.allocate(length);
    } else {
      FrameType complete = type;
      ByteBuffer body = in.flip();
      type = null;
      in = ByteBuffer.allocate(MessageWriter.HEADER_BYTES);
      owner.received(this, complete, new MessageReader(body));
    }
  }

  private void lost(IOException reason) {
    if (ended.compareAndSet(false, true)) {
      closeChannel();
      owner.closed(this, reason);
    }
  }

  /** A TLS handshake may have to answer, or have let waiting messages go, by what was read. */
  private void goOnWriting() {
    if (isWaitingForRoom()) {
      // Not under the lock: the owner may be told, who locks too.
      awaitRoom();
    }
  }

  private boolean isWaitingForRoom() {
    synchronized (out) {
      return !out.isEmpty() || !wire.isFlushed();
    }
  }

  @Override
  public boolean isFinishing() {
    return closeWhenFlushed && (draining || !ended.get());
  }

  private void awaitRoom() {
    try {
      synchronized (out) {
        boolean empty = flushed();
        if (empty && closeWhenFlushed && !draining) {
          drain();
        }
        if (key.isValid()) {
          boolean room = !empty && wire.takesData();
          key.interestOps(SelectionKey.OP_READ | (room ? SelectionKey.OP_WRITE : 0));
        }
      }
    } catch (IOException e) {
      lost(e);
    }
  }

  /** Writes as much as the socket takes; true if nothing is left. */
  private boolean flushed() throws IOException {
    while (!out.isEmpty()) {
      ByteBuffer message = out.peek();
      int end = message.limit();
      while (message.hasRemaining()) {
        message.limit(Math.min(end, message.position() + READ_BYTES));
        int written = wire.write(message);
        message.limit(end);
        if (written == 0) {
          return false;
        }
      }
      out.remove();
    }
    return wire.flush();
  }
}
