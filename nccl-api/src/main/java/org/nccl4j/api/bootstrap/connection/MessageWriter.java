package org.nccl4j.api.bootstrap.connection;

import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;

/** Builds a message: length (4, without itself and the type), type (1), then the fields. */
public final class MessageWriter {
  public static final int HEADER_BYTES = 5;

  private ByteBuffer out;

  public MessageWriter(FrameType type) {
    this(type, 256);
  }

  /** With room for so many bytes of fields. */
  public MessageWriter(FrameType type, int bytes) {
    out = ByteBuffer.allocate(HEADER_BYTES + bytes);
    out.putInt(0).put((byte) type.ordinal());
  }

  public MessageWriter number(int value) {
    room(4).putInt(value);
    return this;
  }

  public MessageWriter number(long value) {
    room(8).putLong(value);
    return this;
  }

  /** At most the given number of bytes; a longer text is cut. */
  public MessageWriter text(String value, int maxBytes) {
    byte[] bytes = value.getBytes(StandardCharsets.UTF_8);
    return bytes(bytes.length <= maxBytes ? bytes : Arrays.copyOf(bytes, maxBytes));
  }

  public MessageWriter bytes(byte[] value) {
    room(4 + value.length).putInt(value.length).put(value);
    return this;
  }

  /** Bytes whose length the fields before tell, or that end the message. */
  public MessageWriter raw(ByteBuffer value) {
    room(value.remaining()).put(value);
    return this;
  }

  MessageWriter address(InetSocketAddress value) {
    return bytes(value.getAddress().getAddress()).number(value.getPort());
  }

  public MessageWriter addresses(List<InetSocketAddress> all) {
    number(all.size());
    all.forEach(this::address);
    return this;
  }

  /** The whole message, ready to be sent. */
  public ByteBuffer done() {
    out.putInt(0, out.position() - HEADER_BYTES);
    return out.flip();
  }

  private ByteBuffer room(int bytes) {
    if (out.remaining() < bytes) {
      int capacity = Math.max(out.capacity() * 2, out.position() + bytes);
      out = ByteBuffer.allocate(capacity).put(out.flip());
    }
    return out;
  }
}
