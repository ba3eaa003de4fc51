package org.nccl4j.api.bootstrap;

import java.net.ProtocolException;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.util.List;
import org.nccl4j.api.bootstrap.connection.FrameType;
import org.nccl4j.api.bootstrap.connection.MessageReader;
import org.nccl4j.api.bootstrap.connection.MessageWriter;
import org.nccl4j.device.InternalErrorException;

/**
 * Consecutive pieces of an all-gather that travel around the ring together, in the order of
 * forwarding: each rank's piece comes before that of its predecessor.
 *
 * @param sequence which exchange
 * @param origin whose piece the first is
 * @param count how many
 * @param pieces each with its length (4) before it; not changed by anybody
 */
record AllGatherBatch(int sequence, int origin, int count, ByteBuffer pieces) {
  /** No bundle is longer. */
  static final int MAX_BYTES = 2 << 20;

  /** A rank's own. */
  static AllGatherBatch own(int sequence, int origin, byte[] piece) {
    ByteBuffer bytes = ByteBuffer.allocate(4 + piece.length).putInt(piece.length).put(piece);
    return new AllGatherBatch(sequence, origin, 1, bytes.flip());
  }

  static AllGatherBatch decode(MessageReader in) throws ProtocolException {
    return new AllGatherBatch(in.number(), in.number(), in.number(), in.rest());
  }

  /** Bundles that follow on each other as one message. */
  static ByteBuffer encode(List<AllGatherBatch> bundles) {
    AllGatherBatch first = bundles.get(0);
    int bytes = bundles.stream().mapToInt(AllGatherBatch::bytes).sum();
    MessageWriter out =
        new MessageWriter(FrameType.DATA, 12 + bytes)
            .number(first.sequence)
            .number(first.origin)
            .number(bundles.stream().mapToInt(AllGatherBatch::count).sum());
    bundles.forEach(each -> out.raw(each.pieces.duplicate()));
    return out.done();
  }

  int bytes() {
    return pieces.remaining();
  }

  /** The rank of the last piece. */
  int lastOrigin(int nRanks) {
    return Math.floorMod(origin - count + 1, nRanks);
  }

  /** Puts each rank's bytes in its place. */
  void read(byte[][] all) {
    try {
      ByteBuffer in = pieces.duplicate();
      for (int i = 0; i < count; i++) {
        byte[] piece = new byte[in.getInt()];
        in.get(piece);
        all[Math.floorMod(origin - i, all.length)] = piece;
      }
    } catch (BufferUnderflowException | NegativeArraySizeException e) {
      throw new InternalErrorException(
          "a bootstrap message of %d pieces is truncated".formatted(count), "report this", e);
    }
  }

  /** Without its last piece; null if nothing is left. */
  AllGatherBatch withoutLast() {
    if (count == 1) {
      return null;
    }
    ByteBuffer in = pieces.duplicate();
    for (int i = 0; i < count - 1; i++) {
      int length = in.getInt();
      in.position(in.position() + length);
    }
    ByteBuffer left = in.flip();
    left.position(pieces.position());
    return new AllGatherBatch(sequence, origin, count - 1, left);
  }
}
