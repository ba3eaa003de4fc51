package org.nccl4j.transport.net.socket;

import java.nio.ByteBuffer;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.device.os.KernelRandom;

/**
 * The request of a socket's handshake: token (15), address (1), index (1), number of sockets (1),
 * plus 128 if messages carry sums; 128 is added to the index if the socket takes over from a broken
 * one.
 *
 * @param token of the listener that it wants
 * @param address to which it was dialled, by its number in the listener's handle
 * @param index of this socket in the connection, {@link SocketDialer#PAIR} if it is a pair's,
 *     {@link SocketDialer#DIFFERS} if it only says that its side differs in TLS
 * @param sockets how many the connection has
 * @param sums whether each message carries a checksum
 * @param resumes whether it takes over from a broken one
 */
record SocketRequest(
    byte[] token, int address, int index, int sockets, boolean sums, boolean resumes) {
  static final int TOKEN_BYTES = 15;
  private static final int SUMS = 0x80;
  private static final int RESUMES = 0x80;

  /** A token that no other listener has. */
  static byte[] newToken() {
    return KernelRandom.bytes(TOKEN_BYTES);
  }

  static SocketRequest of(ByteBuffer bytes) {
    byte[] token = new byte[TOKEN_BYTES];
    bytes.get(token);
    int address = bytes.get();
    int index = bytes.get();
    int sockets = bytes.get();
    return new SocketRequest(
        token,
        address,
        index & ~RESUMES & 0xff,
        sockets & ~SUMS & 0xff,
        (sockets & SUMS) != 0,
        (index & RESUMES) != 0);
  }

  byte[] toBytes() {
    return ByteBuffer.allocate(Handshake.REQUEST_BYTES)
        .put(token)
        .put((byte) address)
        .put((byte) (index | (resumes ? RESUMES : 0)))
        .put((byte) (sockets | (sums ? SUMS : 0)))
        .array();
  }
}
