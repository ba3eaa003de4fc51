package org.nccl4j.api.bootstrap.connection;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.ProtocolException;
import java.net.UnknownHostException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;

/** Reads a message's fields; refuses a malformed message. */
public final class MessageReader {
  private static final int MAX_ADDRESSES = 8;

  private final ByteBuffer in;

  public MessageReader(ByteBuffer body) {
    in = body;
  }

  public int number() throws ProtocolException {
    need(4);
    return in.getInt();
  }

  public long longNumber() throws ProtocolException {
    need(8);
    return in.getLong();
  }

  public String text(int maxBytes) throws ProtocolException {
    return new String(bytes(maxBytes), StandardCharsets.UTF_8);
  }

  public byte[] bytes(int maxBytes) throws ProtocolException {
    int length = number();
    if (length < 0 || length > maxBytes) {
      throw new ProtocolException("it sent a field of " + length + " bytes");
    }
    need(length);
    byte[] bytes = new byte[length];
    in.get(bytes);
    return bytes;
  }

  /** True if something has not been read. */
  public boolean hasMore() {
    return in.hasRemaining();
  }

  /** All that has not been read. */
  public ByteBuffer rest() {
    ByteBuffer left = in.slice();
    in.position(in.limit());
    return left;
  }

  InetSocketAddress address() throws ProtocolException {
    try {
      InetAddress host = InetAddress.getByAddress(bytes(16));
      int port = number();
      if (port < 1 || port > 65535) {
        throw new ProtocolException("it sent the port " + port);
      }
      return new InetSocketAddress(host, port);
    } catch (UnknownHostException e) {
      throw new ProtocolException("it sent an invalid address");
    }
  }

  /** At least one. */
  public List<InetSocketAddress> addresses() throws ProtocolException {
    int count = number();
    if (count < 1 || count > MAX_ADDRESSES) {
      throw new ProtocolException("it sent " + count + " addresses");
    }
    List<InetSocketAddress> all = new ArrayList<>();
    for (int i = 0; i < count; i++) {
      all.add(address());
    }
    return List.copyOf(all);
  }

  private void need(int bytes) throws ProtocolException {
    if (in.remaining() < bytes) {
      throw new ProtocolException("it sent a message that ends too early");
    }
  }
}
