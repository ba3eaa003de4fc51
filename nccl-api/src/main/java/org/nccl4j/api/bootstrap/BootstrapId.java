package org.nccl4j.api.bootstrap;

import java.net.Inet4Address;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.Collectors;
import org.nccl4j.api.wire.Sockets;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;

/**
 * The content of a unique id: where the bootstrap root listens and the secret of its communicator.
 *
 * <p>As bytes: version (1), flags (1: bit 0, the first rank that comes to it starts the root), port
 * (2), secret (16), number of hosts (1), then for each its kind (1: 4, 6 or 'n') and its address of
 * 4 or 16 bytes, or the length (1) and letters of its name. At most {@value #MAX_BYTES} bytes.
 * Version 1 is the first.
 */
public final class BootstrapId {
  /** No id is longer. */
  public static final int MAX_BYTES = 128;

  static final int SECRET_BYTES = 16;
  private static final int LABEL_BYTES = 4;
  private static final byte VERSION = 1;
  private static final int FIXED_BYTES = 5 + SECRET_BYTES;

  private final boolean startedByFirstRank;
  private final List<InetSocketAddress> addresses;
  private final byte[] secret;

  BootstrapId(boolean startedByFirstRank, List<InetSocketAddress> addresses, byte[] secret) {
    this.startedByFirstRank = startedByFirstRank;
    this.addresses = List.copyOf(addresses);
    this.secret = secret.clone();
  }

  /** True if the first of the root's ranks starts it when it joins, and not listening before. */
  boolean startedByFirstRank() {
    return startedByFirstRank;
  }

  /** Returns the root's addresses, best first, all with one port; a name is unresolved. */
  List<InetSocketAddress> addresses() {
    return addresses;
  }

  byte[] secret() {
    return secret.clone();
  }

  /** The same way with another secret. */
  BootstrapId withSecret(byte[] other) {
    return new BootstrapId(startedByFirstRank, addresses, other);
  }

  /** The addresses for messages. */
  public String where() {
    return text(addresses);
  }

  /** A short name of the communicator, the same for all ranks; tells nothing of the secret. */
  public String label() {
    try {
      byte[] hash = MessageDigest.getInstance("SHA-256").digest(encode());
      return HexFormat.of().formatHex(hash, 0, LABEL_BYTES);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java platform has SHA-256", e);
    }
  }

  static String text(List<InetSocketAddress> addresses) {
    return addresses.stream().map(Sockets::text).collect(Collectors.joining(" or "));
  }

  /** Encodes the id for every rank. */
  public byte[] encode() {
    ByteBuffer out = ByteBuffer.allocate(512);
    out.put(VERSION).put((byte) (startedByFirstRank ? 1 : 0));
    out.putShort((short) addresses.get(0).getPort()).put(secret).put((byte) addresses.size());
    for (InetSocketAddress address : addresses) {
      if (address.isUnresolved()) {
        byte[] name = address.getHostString().getBytes(StandardCharsets.UTF_8);
        out.put((byte) 'n').put((byte) name.length).put(name, 0, Math.min(name.length, 255));
      } else {
        out.put((byte) (address.getAddress() instanceof Inet4Address ? 4 : 6));
        out.put(address.getAddress().getAddress());
      }
    }
    if (out.position() > MAX_BYTES) {
      throw new InvalidArgumentException(
          ErrorId.UNIQUE_ID,
          "a unique id has no room for the host name \"" + addresses.get(0).getHostString() + "\"",
          "give its address, or a name of at most 100 letters");
    }
    byte[] bytes = new byte[out.position()];
    out.flip().get(bytes);
    return bytes;
  }

  /**
   * From {@link #encode()}'s bytes.
   *
   * @throws InvalidArgumentException if they are not an id
   */
  public static BootstrapId decode(byte[] bytes) {
    try {
      return read(ByteBuffer.wrap(bytes));
    } catch (BufferUnderflowException | UnknownHostException e) {
      throw notAnId("it ends too early", e);
    }
  }

  /**
   * From {@link #encode()}'s bytes in hexadecimal.
   *
   * @throws InvalidArgumentException if they are not an id
   */
  public static BootstrapId parse(String text) {
    int digits = text.length();
    if (digits < 2 * FIXED_BYTES || digits > 2 * MAX_BYTES) {
      throw notAnId(
          "this text is",
          "it has %d characters, not %d to %d".formatted(digits, 2 * FIXED_BYTES, 2 * MAX_BYTES),
          null);
    }
    if (digits % 2 != 0) {
      throw notAnId(
          "this text is",
          "it has %d characters, an odd number; a part is missing".formatted(digits),
          null);
    }
    try {
      return decode(HexFormat.of().parseHex(text));
    } catch (IllegalArgumentException e) {
      throw notAnId("this text is", "it is not a whole number of bytes in hexadecimal", e);
    }
  }

  private static BootstrapId read(ByteBuffer in) throws UnknownHostException {
    if (in.remaining() < FIXED_BYTES || in.remaining() > MAX_BYTES) {
      throw notAnId("it has " + in.remaining() + " bytes", null);
    }
    int version = in.get();
    int flags = in.get();
    if (version != VERSION || (flags & ~1) != 0) {
      throw notAnId("its version is " + version + ", known is " + VERSION, null);
    }
    int port = in.getShort() & 0xffff;
    byte[] secret = new byte[SECRET_BYTES];
    in.get(secret);
    int hosts = in.get();
    List<InetSocketAddress> addresses = new ArrayList<>();
    for (int i = 0; i < hosts; i++) {
      addresses.add(readHost(in, port));
    }
    if (addresses.isEmpty() || in.hasRemaining() || port == 0) {
      throw notAnId("its addresses are invalid", null);
    }
    return new BootstrapId((flags & 1) != 0, addresses, secret);
  }

  private static InetSocketAddress readHost(ByteBuffer in, int port) throws UnknownHostException {
    int kind = in.get();
    byte[] host =
        switch (kind) {
          case 4 -> new byte[4];
          case 6 -> new byte[16];
          case 'n' -> new byte[in.get() & 0xff];
          default -> throw notAnId("it has an address of an unknown kind", null);
        };
    in.get(host);
    return kind == 'n'
        ? InetSocketAddress.createUnresolved(new String(host, StandardCharsets.UTF_8), port)
        : new InetSocketAddress(InetAddress.getByAddress(host), port);
  }

  private static InvalidArgumentException notAnId(String why, Exception cause) {
    return notAnId("these bytes are", why, cause);
  }

  private static InvalidArgumentException notAnId(String form, String why, Exception cause) {
    return new InvalidArgumentException(
        ErrorId.UNIQUE_ID,
        form + " not a unique id: " + why,
        "pass the result of UniqueId.toBytes() or toString() unchanged",
        cause);
  }
}
