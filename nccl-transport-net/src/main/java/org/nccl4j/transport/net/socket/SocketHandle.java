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
 * The address of a listener. As bytes: version (1), lanes (1), port (2), token (16), number of
 * addresses (1), then for each its length (1) and bytes; rails (1); flags (1): 1 paired, 2 sums, 4
 * encrypted.
 *
 * @param lanes sockets beside the first
 * @param port it listens on
 * @param token which of the port's listeners
 * @param addresses best first
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
    int rails,
    boolean paired,
    boolean sums,
    boolean encrypted) {
  static final int TOKEN_BYTES = SocketRequest.TOKEN_BYTES;

  /** Largest number of addresses of 16 bytes: a handle has room for as many. */
  static final int MAX_ADDRESSES = 6;

  private static final byte VERSION = 4;
  private static final int PAIRED = 1;
  private static final int SUMS = 2;
  private static final int ENCRYPTED = 4;
  private static final int MOST_BYTES = 23 + MAX_ADDRESSES * 17;

  byte[] toBytes() {
    ByteBuffer out = ByteBuffer.allocate(MOST_BYTES);
    out.put(VERSION).put((byte) lanes).putShort((short) port).put(token);
    out.put((byte) addresses.size());
    for (InetAddress address : addresses) {
      out.put((byte) address.getAddress().length).put(address.getAddress());
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
      for (int left = in.get(); left > 0; left--) {
        byte[] address = new byte[in.get()];
        in.get(address);
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

  /** The addresses with the port, as sockets take them. */
  List<InetSocketAddress> where() {
    return addresses.stream().map(address -> new InetSocketAddress(address, port)).toList();
  }
}
