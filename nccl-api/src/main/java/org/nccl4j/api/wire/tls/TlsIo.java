package org.nccl4j.api.wire.tls;

import java.io.IOException;
import java.net.ProtocolException;
import java.nio.ByteBuffer;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SocketChannel;
import javax.crypto.BadPaddingException;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLEngineResult;
import javax.net.ssl.SSLEngineResult.HandshakeStatus;
import javax.net.ssl.SSLException;
import org.nccl4j.api.wire.UnfinishedTlsException;

/** A connection's bytes with TLS. The reads and writes themselves perform the handshake. */
final class TlsIo implements SocketIo {
  private static final ByteBuffer[] NOTHING = {ByteBuffer.allocate(0)};

  /** Bytes after which a read or write ends, so that others soon get their turn. */
  private static final int MOST_AT_ONCE = 256 << 10;

  /** Before the bytes of a record: type (1), version (2), length (2). */
  private static final int RECORD_HEADER = 5;

  private static final int RECORD_LENGTH_AT = 3;

  /** The tag of a record. The engine wants room for the rest, of which a byte is its type. */
  private static final int TAG = 16;

  private final SocketChannel channel;
  private final SSLEngine engine;
  private final int packet;

  /** Bytes that have come and are not decrypted; always ready to be read, as the next two are. */
  private final ByteBuffer fromNet;

  /** Encrypted bytes that could not be sent. */
  private final ByteBuffer toNet;

  /** Decrypted bytes that were not read yet. */
  private final ByteBuffer plain;

  private final ByteBuffer[] one = new ByteBuffer[1];

  private boolean secured;

  /** True if the other side has said anything. */
  private boolean heard;

  /** The failure that ended a read which had brought something. */
  private IOException end;

  /** Begins, with room for so many records that go or come in one system call. */
  TlsIo(SocketChannel channel, SSLEngine engine, int records) throws IOException {
    this.channel = channel;
    this.engine = engine;
    packet = engine.getSession().getPacketBufferSize();
    fromNet = ByteBuffer.allocate(records * packet).limit(0);
    toNet = ByteBuffer.allocate(records * packet).limit(0);
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
    return plain.hasRemaining() || fromNet.hasRemaining() || end != null;
  }

  @Override
  public synchronized int read(ByteBuffer target) throws IOException {
    if (end != null) {
      throw end;
    }
    int before = target.position();
    boolean drained = false;
    try {
      while (!isEnough(target, before)) {
        if (plain.hasRemaining()) {
          take(target);
        } else if (!decrypt(target)) {
          if (drained && target.position() > before) {
            return target.position() - before;
          }
          int got = readMore();
          drained = fromNet.limit() < fromNet.capacity();
          if (got < 0 && !secured) {
            throw new UnfinishedTlsException();
          }
          if (got <= 0) {
            int bytes = target.position() - before;
            return bytes > 0 ? bytes : got;
          }
        }
      }
    } catch (IOException e) {
      IOException told = e instanceof SSLException tls ? refused(tls) : e;
      if (target.position() == before) {
        throw told;
      }
      end = told;
    }
    return target.position() - before;
  }

  /** True if a read has brought what it can; one without room makes the handshake. */
  private boolean isEnough(ByteBuffer target, int before) {
    int bytes = target.position() - before;
    heard |= bytes > 0 || plain.hasRemaining();
    return !target.hasRemaining() && (bytes > 0 || plain.hasRemaining()) || bytes >= MOST_AT_ONCE;
  }

  private void take(ByteBuffer target) {
    int limit = plain.limit();
    plain.limit(plain.position() + Math.min(plain.remaining(), target.remaining()));
    target.put(plain);
    plain.limit(limit);
  }

  /**
   * A server that refuses a client's certificate says so after the client's handshake, if at all.
   */
  private int readMore() throws IOException {
    String how = "closed";
    IOException cause = null;
    try {
      int got = fill();
      if (got >= 0 || !secured || heard || !engine.getUseClientMode()) {
        return got;
      }
    } catch (IOException e) {
      if (!secured || heard || !engine.getUseClientMode()) {
        throw e;
      }
      how = e.getMessage();
      cause = e;
    }
    throw new IOException(
        "it ended the connection after the TLS handshake (%s), and may not accept this side's"
                .formatted(how)
            + " certificate; look at NCCL4J_TLS_CERT here and NCCL4J_TLS_CA there",
        cause);
  }

  private int fill() throws IOException {
    fromNet.compact();
    try {
      return channel.read(fromNet);
    } finally {
      fromNet.flip();
    }
  }

  /**
   * Decrypts a record that has come, to where it is read if there is room; false if more has to
   * come first.
   */
  private boolean decrypt(ByteBuffer target) throws IOException {
    if (secured && !holdsRecord()) {
      return false;
    }
    SSLEngineResult result = null;
    if (fits(target)) {
      result = engine.unwrap(fromNet, target);
    }
    if (result == null || result.getStatus() == SSLEngineResult.Status.BUFFER_OVERFLOW) {
      plain.clear();
      try {
        result = engine.unwrap(fromNet, plain);
      } finally {
        plain.flip();
      }
    }
    if (result.getStatus() == SSLEngineResult.Status.CLOSED) {
      throw new ClosedChannelException();
    }
    boolean more = result.getStatus() != SSLEngineResult.Status.BUFFER_UNDERFLOW;
    return handshake(result.getHandshakeStatus()) && more;
  }

  /** True if a record is here, or what is here is none: else the engine has nothing to do. */
  private boolean holdsRecord() {
    if (fromNet.remaining() < RECORD_HEADER) {
      return false;
    }
    int bytes = RECORD_HEADER + recordLength();
    return fromNet.remaining() >= bytes || bytes > packet;
  }

  private int recordLength() {
    return fromNet.getShort(fromNet.position() + RECORD_LENGTH_AT) & 0xffff;
  }

  private boolean fits(ByteBuffer target) {
    return fromNet.remaining() > RECORD_HEADER && recordLength() - TAG <= target.remaining();
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
          status = wrap(NOTHING, 0, 1).getHandshakeStatus();
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

  /** Encrypts a record behind those that are not sent yet. */
  private SSLEngineResult wrap(ByteBuffer[] sources, int offset, int length) throws IOException {
    if (!toNet.hasRemaining()) {
      toNet.clear().limit(0);
    }
    int begin = toNet.position();
    toNet.position(toNet.limit()).limit(toNet.capacity());
    try {
      return engine.wrap(sources, offset, length, toNet);
    } finally {
      toNet.limit(toNet.position()).position(begin);
    }
  }

  @Override
  public synchronized int write(ByteBuffer source) throws IOException {
    one[0] = source;
    return (int) write(one, 0, 1);
  }

  /** Takes what it can of several buffers, in records that may reach over their bounds. */
  synchronized long write(ByteBuffer[] sources, int offset, int length) throws IOException {
    try {
      if (!secured) {
        handshake(engine.getHandshakeStatus());
      }
      long before = remaining(sources, offset, length);
      long left = before;
      while (secured && left > 0 && before - left < MOST_AT_ONCE && hasRoom()) {
        SSLEngineResult result = wrap(sources, offset, length);
        if (result.getStatus() == SSLEngineResult.Status.CLOSED) {
          throw new ClosedChannelException();
        }
        if (result.bytesProduced() == 0) {
          break;
        }
        left = remaining(sources, offset, length);
      }
      sent();
      return before - left;
    } catch (SSLException e) {
      throw refused(e);
    }
  }

  private static long remaining(ByteBuffer[] sources, int offset, int length) {
    long bytes = 0;
    for (int s = offset; s < offset + length; s++) {
      bytes += sources[s].remaining();
    }
    return bytes;
  }

  /** True if another record has room, after those before it were sent if need be. */
  private boolean hasRoom() throws IOException {
    return toNet.capacity() - toNet.limit() >= packet && toNet.hasRemaining() || sent();
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
  private IOException refused(SSLException e) throws IOException {
    try {
      engine.closeOutbound();
      if (sent()) {
        wrap(NOTHING, 0, 1);
        sent();
      }
    } catch (IOException told) {
      e.addSuppressed(told);
    }
    String what = String.valueOf(e.getMessage());
    if (e.getCause() instanceof BadPaddingException || secured && heard) {
      SSLException damaged =
          new SSLException(
              what.contains("Received fatal alert")
                  ? "TLS: bytes that this side sent were damaged in transit (%s)".formatted(what)
                  : "TLS: bytes were damaged in transit (%s)".formatted(what));
      damaged.initCause(e);
      return damaged;
    }
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
