package org.nccl4j.api.wire;

import java.io.Closeable;
import java.io.IOException;
import java.net.ProtocolException;
import java.net.StandardSocketOptions;
import java.nio.ByteBuffer;
import java.nio.channels.ByteChannel;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SocketChannel;
import java.util.function.Predicate;

/**
 * A connected socket with its {@link Handshake} under way. Never waits; owned by the thread that
 * polls it.
 */
public final class PendingHandshake implements Closeable {
  /** Reads and writes the bytes of a connected socket: as they are, or by TLS. */
  @FunctionalInterface
  public interface Channels {
    /** The socket's bytes as they are. */
    Channels PLAIN = socket -> socket;

    ByteChannel over(SocketChannel socket) throws IOException;
  }

  private final SocketChannel socket;
  private final ByteChannel channel;
  private final Handshake handshake;
  private final Predicate<ByteBuffer> awaited;
  private ByteBuffer in;
  private int steps;
  private ByteBuffer out;

  /**
   * Begins.
   *
   * @param socket connected, in non-blocking mode
   */
  public PendingHandshake(SocketChannel socket, Channels channels, Handshake handshake)
      throws IOException {
    this(socket, channels, handshake, request -> true);
  }

  /**
   * Begins as the other constructor does.
   *
   * @param awaited true for a request that this side, a server, answers with its proof
   */
  PendingHandshake(
      SocketChannel socket, Channels channels, Handshake handshake, Predicate<ByteBuffer> awaited)
      throws IOException {
    socket.setOption(StandardSocketOptions.TCP_NODELAY, true);
    socket.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
    this.socket = socket;
    this.channel = channels.over(socket);
    this.handshake = handshake;
    this.awaited = awaited;
    in = ByteBuffer.allocate(handshake.wanted());
    out = ByteBuffer.wrap(handshake.opening());
  }

  public SocketChannel socket() {
    return socket;
  }

  /** The socket's bytes, to read and write after the handshake. */
  public ByteChannel channel() {
    return channel;
  }

  public Handshake handshake() {
    return handshake;
  }

  /** Returns the number of messages that were read from the other side. */
  public int steps() {
    return steps;
  }

  /**
   * Takes the next step, and says whether both sides know each other.
   *
   * @throws ProtocolException also if this side does not await the request; then the other side
   *     receives no proof, so that it does not take this listener for the one that it wants
   */
  public boolean poll() throws IOException {
    while (true) {
      if (out.hasRemaining()) {
        channel.write(out);
      }
      if (out.hasRemaining()) {
        return false;
      }
      if (handshake.done()) {
        return true;
      }
      if (channel.read(in) < 0) {
        throw new ClosedChannelException();
      }
      if (in.hasRemaining()) {
        return false;
      }
      byte[] answer = handshake.step(in.array());
      if (handshake.done() && handshake.isServer() && !awaited.test(handshake.request())) {
        throw new ProtocolException(Listener.UNAWAITED);
      }
      out = ByteBuffer.wrap(answer);
      steps++;
      in = ByteBuffer.allocate(handshake.wanted());
    }
  }

  @Override
  public void close() {
    Sockets.close(socket);
  }
}
