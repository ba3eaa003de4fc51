package org.nccl4j.api.wire.tls;

import java.io.IOException;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SocketChannel;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLEngineResult;
import javax.net.ssl.SSLEngineResult.HandshakeStatus;
import javax.net.ssl.SSLException;

/** A connection's bytes by TLS. Its handshake is made by the reads and writes themselves. */
final class TlsIo implements SocketIo {
  private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

  private final SocketChannel channel;
  private final SSLEngine engine;
  private final ByteBuffer fromNet;
  private final ByteBuffer toNet;

  /** Decrypted bytes that were not read yet; always ready to be read. */
  private final ByteBuffer plain;

  private boolean secured;

  /** True if the other side has said anything. */
  private boolean heard;

  TlsIo(SocketChannel channel, SSLEngine engine) throws IOException {
    this.channel = channel;
    this.engine = engine;
    int packet = engine.getSession().getPacketBufferSize();
    fromNet = ByteBuffer.allocate(packet);
    toNet = ByteBuffer.allocate(packet).limit(0);
    plain = ByteBuffer.allocate(engine.getSession().getApplicationBufferSize()).limit(0);
    engine.beginHandshake();
  }

  @Override
  public synchronized boolean takesData() {
    return secured || toNet.hasRemaining();
  }

  @Override
  public synchronized boolean isFlushed() {
    return !toNet.hasRemaining();
  }

  @Override
  public synchronized boolean holdsData() {
    return plain.hasRemaining() || fromNet.position() > 0;
  }

  @Override
  public synchronized int read(ByteBuffer target) throws IOException {
    try {
      while (!plain.hasRemaining()) {
        if (!decrypt()) {
          int got = readMore();
          if (got < 0 && !secured) {
            throw new ProtocolException(
                "it closed the connection during the TLS handshake; set NCCL4J_TLS_CERT on all"
                    + " ranks or on none");
          }
          if (got <= 0) {
            return got;
          }
        }
      }
    } catch (SSLException e) {
      throw refused(e);
    }
    heard = true;
    int bytes = Math.min(plain.remaining(), target.remaining());
    ByteBuffer part = plain.slice(plain.position(), bytes);
    target.put(part);
    plain.position(plain.position() + bytes);
    return bytes;
  }

  /**
   * A server that refuses a client's certificate says so after the client's handshake, if at all.
   */
  private int readMore() throws IOException {
    String end = "closed";
    IOException cause = null;
    try {
      int got = channel.read(fromNet);
      if (got >= 0 || !secured || heard || !engine.getUseClientMode()) {
        return got;
      }
    } catch (IOException e) {
      if (!secured || heard || !engine.getUseClientMode()) {
        throw e;
      }
      end = e.getMessage();
      cause = e;
    }
    throw new IOException(
        "it ended the connection after the TLS handshake (%s), and may not accept this side's"
                .formatted(end)
            + " certificate; look at NCCL4J_TLS_CERT here and NCCL4J_TLS_CA there",
        cause);
  }

  /** Goes on with what has come; false if more has to come first. */
  private boolean decrypt() throws IOException {
    fromNet.flip();
    plain.clear();
    SSLEngineResult result;
    try {
      result = engine.unwrap(fromNet, plain);
    } finally {
      fromNet.compact();
      plain.flip();
    }
    if (result.getStatus() == SSLEngineResult.Status.CLOSED) {
      throw new ClosedChannelException();
    }
    boolean more = result.getStatus() != SSLEngineResult.Status.BUFFER_UNDERFLOW;
    return handshake(result.getHandshakeStatus()) && more;
  }

  /** Does what the handshake needs of this side; whether reading makes sense. */
  private boolean handshake(HandshakeStatus first) throws IOException {
    HandshakeStatus status = first;
    while (true) {
      switch (status) {
        case NEED_TASK -> {
          for (Runnable task = engine.getDelegatedTask();
              task != null;
              task = engine.getDelegatedTask()) {
            task.run();
          }
          status = engine.getHandshakeStatus();
        }
        case NEED_WRAP -> {
          if (!sent()) {
            return false;
          }
          status = wrap(NOTHING).getHandshakeStatus();
        }
        case FINISHED, NOT_HANDSHAKING -> {
          secured = true;
          sent();
          return true;
        }
        default -> {
          sent();
          return true;
        }
      }
    }
  }

  private SSLEngineResult wrap(ByteBuffer source) throws IOException {
    toNet.clear();
    try {
      return engine.wrap(source, toNet);
    } finally {
      toNet.flip();
    }
  }

  @Override
  public synchronized int write(ByteBuffer source) throws IOException {
    try {
      if (!secured) {
        handshake(engine.getHandshakeStatus());
      }
      if (!secured || !sent()) {
        return 0;
      }
      int before = source.remaining();
      wrap(source);
      sent();
      return before - source.remaining();
    } catch (SSLException e) {
      throw refused(e);
    }
  }

  @Override
  public synchronized boolean flush() throws IOException {
    try {
      if (sent() && !secured) {
        handshake(engine.getHandshakeStatus());
      }
    } catch (SSLException e) {
      throw refused(e);
    }
    return isFlushed();
  }

  private boolean sent() throws IOException {
    while (toNet.hasRemaining()) {
      if (channel.write(toNet) == 0) {
        return false;
      }
    }
    return true;
  }

  /** Tells the other side why, and what to look at on this one. */
  private ProtocolException refused(SSLException e) throws IOException {
    try {
      engine.closeOutbound();
      if (sent()) {
        wrap(NOTHING);
        sent();
      }
    } catch (SSLException told) {
      e.addSuppressed(told);
    }
    String what = String.valueOf(e.getMessage());
    String why =
        what.contains("not an SSL/TLS") || what.contains("plaintext")
            ? "it does not speak TLS; set NCCL4J_TLS_CERT on all ranks or on none"
            : what.contains("Received fatal alert")
                ? "it does not accept this side's certificate (%s); look at NCCL4J_TLS_CERT here and"
                        .formatted(what)
                    + " NCCL4J_TLS_CA there"
                : "its certificate is not accepted (%s); look at NCCL4J_TLS_CA here and"
                        .formatted(what)
                    + " NCCL4J_TLS_CERT there";
    ProtocolException told = new ProtocolException("TLS: " + why);
    told.initCause(e);
    return told;
  }
}
