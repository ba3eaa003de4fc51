package org.nccl4j.transport.net.socket;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.UnknownHostException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;

/**
 * The address of a listener. As bytes: version (1), lanes (1), port (2), token (15), number of
 * addresses (1), then for each its length, plus 32 for each eighth of its speed beyond the first
 * (1), and bytes; rails (1); flags (1): 1 paired, 2 sums, 4 encrypted.
 *
 * @param lanes sockets beside the first
 * @param port it listens on
 * @param token which of the port's listeners
 * @param addresses best first
 * @param speeds of the addresses' interfaces, in eighths of the fastest rail's, at least 1 and at
 *     most 8
 * @param rails how many of them, from the first on, the connection's sockets are spread over
 * @param paired whether the socket can be one for both directions between two ranks
 * @param sums whether each message carries a checksum
 * @param encrypted whether its sockets use TLS
 */
record SocketHandle(
    int lanes,
    int port,
    byte[] token,
    List<InetAddress> addresses,
    List<Integer> speeds,
    int rails,
    boolean paired,
    boolean sums,
    boolean encrypted) {
  static final int TOKEN_BYTES = SocketRequest.TOKEN_BYTES;

  /** Largest number of addresses of 16 bytes: a handle has room for as many. */
  static final int MAX_ADDRESSES = 6;

  /** The speed of the fastest rail. */
  static final int FASTEST = 8;

  private static final byte VERSION = 5;
  private static final int LENGTH_BITS = 5;

  /** The speed of one lane at an interface, which lanes at the same interface share. */
  private static final int ONE = 1 << 16;

  private static final int PAIRED = 1;
  private static final int SUMS = 2;
  private static final int ENCRYPTED = 4;
  private static final int MOST_BYTES = 22 + MAX_ADDRESSES * 17;

  byte[] toBytes() {
    ByteBuffer out = ByteBuffer.allocate(MOST_BYTES);
    out.put(VERSION).put((byte) lanes).putShort((short) port).put(token);
    out.put((byte) addresses.size());
    for (int number = 0; number < addresses.size(); number++) {
      byte[] address = addresses.get(number).getAddress();
      out.put((byte) (address.length | speeds.get(number) - 1 << LENGTH_BITS)).put(address);
    }
    int flags = (paired ? PAIRED : 0) | (sums ? SUMS : 0) | (encrypted ? ENCRYPTED : 0);
    out.put((byte) rails).put((byte) flags);
    byte[] bytes = new byte[out.position()];
    out.flip().get(bytes);
    return bytes;
  }

  static SocketHandle fromBytes(byte[] bytes) {
    try {
      ByteBuffer in = ByteBuffer.wrap(bytes);
      if (in.get() != VERSION) {
        throw new UnknownHostException("another version");
      }
      int lanes = in.get();
      int port = in.getShort() & 0xffff;
      byte[] token = new byte[TOKEN_BYTES];
      in.get(token);
      List<InetAddress> addresses = new ArrayList<>();
      List<Integer> speeds = new ArrayList<>();
      for (int left = in.get(); left > 0; left--) {
        int head = in.get() & 0xff;
        byte[] address = new byte[head & (1 << LENGTH_BITS) - 1];
        in.get(address);
        speeds.add((head >>> LENGTH_BITS) + 1);
        addresses.add(InetAddress.getByAddress(address));
      }
      int rails = in.get();
      int flags = in.get();
      if (addresses.isEmpty()
          || rails < 1
          || rails > addresses.size()
          || (flags & ~(PAIRED | SUMS | ENCRYPTED)) != 0
          || in.hasRemaining()
          || port == 0
          || lanes < 0
          || lanes > SocketSettings.MAX_SOCKETS) {
        throw new UnknownHostException("it makes no sense");
      }
      return new SocketHandle(
          lanes,
          port,
          token,
          List.copyOf(addresses),
          List.copyOf(speeds),
          rails,
          (flags & PAIRED) != 0,
          (flags & SUMS) != 0,
          (flags & ENCRYPTED) != 0);
    } catch (BufferUnderflowException | UnknownHostException | NegativeArraySizeException e) {
      throw new InvalidUsageException(
          ErrorId.RANKS_DIFFER,
          "%d bytes are not a handle of a socket listener (%s)".formatted(bytes.length, e),
          "run the same version of nccl4j on all ranks",
          e);
    }
  }

  /**
   * Relative shares of a message's bytes: lanes at one interface share its speed. The same at both
   * ends.
   *
   * @param dialled by socket, the first included: the number of the address that it leads to
   * @return by lane; empty if all have the same
   */
  int[] shares(int[] dialled) {
    int[] shares = new int[lanes];
    boolean differ = false;
    for (int lane = 0; lane < lanes; lane++) {
      int address = dialled[1 + lane];
      int together = 0;
      for (int other = 0; other < lanes; other++) {
        together += dialled[1 + other] == address ? 1 : 0;
      }
      shares[lane] = speeds.get(address) * ONE / together;
      differ |= speeds.get(address) < speeds.get(dialled[1]);
      differ |= speeds.get(address) > speeds.get(dialled[1]);
    }
    return differ ? shares : new int[0];
  }

  /** The addresses with the port, as sockets take them. */
  List<InetSocketAddress> where() {
    return addresses.stream().map(address -> new InetSocketAddress(address, port)).toList();
  }
}
