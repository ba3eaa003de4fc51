package org.nccl4j.transport.p2p;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.nccl4j.api.spi.PeerInfo;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RemoteException;

/**
 * A connector's message to the opposite connector. As bytes, big endian: magic "n4ja" (u32),
 * version 1 (u8), end (u8), rank (u32), number (u32), capacity (u32), dataBytes (u64), address,
 * which is the rest.
 *
 * @param end which end of the connection it is of
 * @param rank whose arena its region lies in
 * @param number the place of its region
 * @param layout the arena's
 * @param address how the arena is found; its meaning is the {@link ArenaExchange}'s
 */
record ArenaHandle(End end, int rank, int number, ArenaLayout layout, String address) {
  private static final int MAGIC = 0x6e346a61;
  private static final byte VERSION = 1;
  private static final int HEADER = 26;

  /** The two ends of a connection. */
  enum End {
    /** End with the credit side. */
    SENDER,
    /** End with the data side. */
    RECEIVER;

    End opposite() {
      return this == SENDER ? RECEIVER : SENDER;
    }

    String label() {
      return this == SENDER ? "sender" : "receiver";
    }
  }

  byte[] encode() {
    byte[] path = address.getBytes(StandardCharsets.UTF_8);
    return ByteBuffer.allocate(HEADER + path.length)
        .putInt(MAGIC)
        .put(VERSION)
        .put((byte) end.ordinal())
        .putInt(rank)
        .putInt(number)
        .putInt(layout.capacity())
        .putLong(layout.dataBytes())
        .put(path)
        .array();
  }

  /**
   * Reads the handle of an opposite.
   *
   * @throws RemoteException if it is not one, or one of another connection or version
   */
  static ArenaHandle decode(byte[] bytes, PeerInfo peer, End end, ArenaLayout layout) {
    ByteBuffer in = ByteBuffer.wrap(bytes);
    if (bytes.length < HEADER || in.getInt() != MAGIC || in.get() != VERSION) {
      throw new RemoteException(
          ErrorId.PROTOCOL,
          "the handle from rank %d, of %d bytes, is not of this transport and version"
              .formatted(peer.rank(), bytes.length),
          "run the same version of nccl4j on all ranks");
    }
    byte whichEnd = in.get();
    int rank = in.getInt();
    int number = in.getInt();
    ArenaLayout theirs = new ArenaLayout(in.getInt(), in.getLong());
    String address = StandardCharsets.UTF_8.decode(in).toString();
    if (rank != peer.rank() || whichEnd != end.ordinal()) {
      throw new InvalidUsageException(
          ErrorId.CALLS_DIFFER,
          "a handle of rank %d arrived instead of the %s of rank %d"
              .formatted(rank, end.label(), peer.rank()),
          "make the same calls in the same order on all ranks");
    }
    if (!theirs.isLike(layout) || number < 0 || number >= layout.capacity()) {
      throw new RemoteException(
          ErrorId.PROTOCOL,
          "rank %d lays out its connections as %s (number %d), this rank as %s"
              .formatted(rank, theirs, number, layout),
          "run the same version of nccl4j with the same NCCL_* settings on all ranks");
    }
    return new ArenaHandle(end, rank, number, theirs, address);
  }
}
