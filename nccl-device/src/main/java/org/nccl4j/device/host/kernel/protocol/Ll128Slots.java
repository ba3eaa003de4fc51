package org.nccl4j.device.host.kernel.protocol;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.memory.HostMemory;

/**
 * The LL128 slots of a connection between ranks of the host device. Small steps have slots of their
 * own, more than the others: a sender that is ahead, as the root of a broadcast is, would otherwise
 * stand still for a flight each way every eight steps, which are over sooner than that. The
 * smallest steps share cache lines, four of them in one, so that a receiver which is behind gets
 * four steps for one flight. Steps of up to a line lie in the first 8 KiB of the data side, among
 * the words of channels that the host device does not use, the others behind all slots. Both ends
 * know the bytes of a step, and so where it is.
 */
final class Ll128Slots {
  /** Most bytes of a step that shares its cache line with other steps. */
  static final int WORD_DATA = 8;

  /** Slots of a quarter of a line. */
  static final int WORDS = 64;

  /** Offset of the slots of a quarter of a line. */
  static final int WORDS_AT = 3072;

  private static final int WORD_BYTES = 16;

  /** Most bytes of a step that shares one cache line with its flag. */
  static final int LINE_DATA = 64 - ConnectionEnd.LL128_DATA;

  /** Slots of one cache line. */
  static final int LINES = 64;

  /** Offset of the slots of one line. */
  static final int LINES_AT = 4096;

  static final int LINE_BYTES = 64;

  /** Most bytes of a step that takes three cache lines, its flag included. */
  static final int TRIPLE_DATA = 3 * 64 - ConnectionEnd.LL128_DATA;

  /**
   * Slots of three lines. None shares a line with another: where two ranks exchange steps, each
   * would take the line that the other is writing away.
   */
  static final int TRIPLES = 64;

  private static final int TRIPLE_BYTES = 3 * 64;

  /** Most bytes of a step that takes up to 17 cache lines, its flag included. */
  static final int SHORT_DATA = 17 * 64 - ConnectionEnd.LL128_DATA;

  /** Slots of 17 lines. */
  static final int SHORTS = 32;

  private static final int SHORT_BYTES = 17 * 64;

  private Ll128Slots() {}

  /**
   * Returns the number of slots for steps of this many bytes. Step s uses slot s mod this number.
   */
  @HotPath
  static int count(int bytes) {
    if (bytes <= LINE_DATA) {
      return bytes <= WORD_DATA ? WORDS : LINES;
    }
    return bytes <= TRIPLE_DATA ? TRIPLES : bytes <= SHORT_DATA ? SHORTS : ConnectionLayout.STEPS;
  }

  /** Offset in the data side of a step's slot, which begins with its flag. */
  @HotPath
  static int slot(ConnectionLayout layout, long step, int bytes) {
    int number = (int) step;
    if (bytes <= WORD_DATA) {
      return WORDS_AT + (number & (WORDS - 1)) * WORD_BYTES;
    }
    if (bytes <= LINE_DATA) {
      return LINES_AT + (number & (LINES - 1)) * LINE_BYTES;
    }
    if (bytes > SHORT_DATA) {
      return (int) layout.ll128(step);
    }
    int small = (int) layout.small();
    return bytes <= TRIPLE_DATA
        ? small + (number & (TRIPLES - 1)) * TRIPLE_BYTES
        : small + TRIPLES * TRIPLE_BYTES + (number & (SHORTS - 1)) * SHORT_BYTES;
  }

  /**
   * Copies into a slot, last what lies beside its flag: the receiver polls that cache line, and
   * would take it away before the flag is written.
   */
  @HotPath
  static void copyFlagLineLast(
      HostMemory source, long sourceOffset, HostMemory target, long targetOffset, int bytes) {
    int beside = Math.min(bytes, LINE_DATA);
    if (beside < bytes) {
      Copies.copy(source, sourceOffset + beside, target, targetOffset + beside, bytes - beside);
    }
    Copies.copy(source, sourceOffset, target, targetOffset, beside);
  }
}
