package org.nccl4j.transport.net.socket;

import java.io.IOException;
import java.nio.channels.ClosedChannelException;
import java.nio.channels.SocketChannel;
import org.nccl4j.api.spi.NetConnection;
import org.nccl4j.api.spi.NetMemory;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;

/** The common part of both ends of a connection. */
abstract class SocketConnection implements NetConnection {
  /** Messages that can be under way. */
  static final int REQUESTS = 32;

  /** Size, tag, note and check of the message that follows, 4 bytes each; then its sum, if any. */
  static final int HEADER_BYTES = 16;

  /** Size that says that the sender has closed. */
  static final int GOODBYE = -1;

  /** Spreads the numbers of messages over all bits. */
  private static final long SPREAD = 0x9e3779b97f4a7c15L;

  /** Null if messages carry no sums. */
  final MessageSum sums;

  /** Length of a header, with the sum. */
  final int headerBytes;

  private final SocketSource source;
  private int sockets = 1;
  private String self = "?";
  private String peer = "?";
  private NcclException broken;
  private boolean closed;

  SocketConnection(SocketSource source, boolean sums) {
    this.source = source;
    this.sums = sums ? new MessageSum() : null;
    this.headerBytes = HEADER_BYTES + (sums ? MessageSum.BYTES : 0);
  }

  /**
   * The last word of a header. A tag that nobody awaits may be awaited later; so it is this by
   * which a receiver knows that what it reads is no header.
   *
   * @param number of messages on this socket before this one
   */
  @HotPath
  static int check(long number, int size, int tag, int note) {
    return (int) ((number + 1) * SPREAD >>> 32)
        ^ size
        ^ Integer.rotateLeft(tag, 16)
        ^ Integer.rotateLeft(note, 8);
  }

  final void connected(SocketChannel[] made) {
    sockets = made.length;
    try {
      self = String.valueOf(made[0].getLocalAddress()).substring(1);
      peer = String.valueOf(made[0].getRemoteAddress()).substring(1);
    } catch (IOException e) {
      peer = "an address that is gone";
    }
  }

  final boolean isClosed() {
    return closed;
  }

  final String peer() {
    return peer;
  }

  @Override
  public NetMemory register(DeviceMemory memory) {
    return new SocketMemory(memory, sockets);
  }

  @Override
  public NetMemory registerDmaBuf(DeviceMemory memory, int fd, long offset) {
    throw new InvalidArgumentException(
        ErrorId.BUFFER,
        "sockets cannot use a dma-buf",
        "register host memory, and copy through it");
  }

  /** Throws what broke the connection, the same every time. */
  final NcclException broken(IOException e) {
    if (broken == null && e instanceof DamagedMessageException) {
      broken =
          new RemoteException(
              ErrorId.DAMAGED,
              "on the connection from %s to %s %s".formatted(peer, self, e.getMessage()),
              "test memory, NICs, cables and switches of the two hosts if it recurs between them"
                  + (sums == null ? "; NCCL4J_NET_CHECKSUM=crc32c checks all bytes" : ""),
              e);
    } else if (broken == null) {
      String how = e instanceof ClosedChannelException ? "the other side is gone" : e.getMessage();
      broken =
          new RemoteException(
              ErrorId.CONNECTION,
              "the connection with %s broke: %s".formatted(peer, how),
              "look at the process on the other side, and at the network",
              e);
    }
    return broken;
  }

  /** Ends what is under way. */
  abstract void end();

  @Override
  public final void close() {
    if (!closed) {
      closed = true;
      end();
      source.close();
    }
  }
}
