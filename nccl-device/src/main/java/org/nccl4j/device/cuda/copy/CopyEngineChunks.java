package org.nccl4j.device.cuda.copy;

import java.util.ArrayList;
import java.util.List;

/**
 * Cuts messages of a lane into copies, each through one of two halves of the slots, in turn, with
 * signals in between. A receiver signals that it has reached a message, because kernels use the
 * slots otherwise, and each time that it has emptied a half. A sender signals each half that it has
 * filled. Both ends count the signals, so they may use different operations for the messages.
 *
 * @param begins how often the peer is told before the first
 * @param all in their order
 * @param ends what the peer tells that is awaited after the last, in number of tellings
 */
record CopyEngineChunks(int begins, List<Piece> all, int ends) {
  static final int HALVES = 2;

  /** Most that is told, or awaited, at once. */
  static final int MOST = HALVES + 1;

  /**
   * A copy.
   *
   * @param message by its place in the lane
   * @param at from which byte on
   * @param half which it goes through
   * @param awaited what the peer tells before it, in number of tellings
   * @param told how often the peer is told after it
   */
  record Piece(int message, long at, long bytes, int half, int awaited, int told) {}

  /**
   * The chunks of a lane.
   *
   * @param messages bytes of each, none 0
   * @param half bytes of a half
   */
  static CopyEngineChunks of(boolean sends, long[] messages, long half) {
    return sends ? outgoing(messages, half) : incoming(messages, half);
  }

  /** A message's first piece waits for both halves of the one before, and for the receiver. */
  private static CopyEngineChunks outgoing(long[] messages, long half) {
    List<Piece> pieces = new ArrayList<>();
    int full = 0;
    for (int message = 0; message < messages.length; message++) {
      long bytes = messages[message];
      for (long at = 0; at < bytes; at += half) {
        long number = at / half;
        int awaited = number == 0 ? full + 1 : number < HALVES ? 0 : 1;
        pieces.add(piece(message, at, bytes, half, awaited, 1));
      }
      full = (int) Math.min(HALVES, (bytes + half - 1) / half);
    }
    return new CopyEngineChunks(0, pieces, full);
  }

  /**
   * Lists the pieces to receive. Receiving a message's last piece also advances to the next
   * message.
   */
  private static CopyEngineChunks incoming(long[] messages, long half) {
    List<Piece> pieces = new ArrayList<>();
    for (int message = 0; message < messages.length; message++) {
      long bytes = messages[message];
      for (long at = 0; at < bytes; at += half) {
        boolean comesToNext = at + half >= bytes && message + 1 < messages.length;
        pieces.add(piece(message, at, bytes, half, 1, comesToNext ? 2 : 1));
      }
    }
    return new CopyEngineChunks(1, pieces, 0);
  }

  private static Piece piece(int message, long at, long bytes, long half, int awaited, int told) {
    long left = bytes - at;
    return new Piece(message, at, Math.min(half, left), (int) (at / half % HALVES), awaited, told);
  }
}
