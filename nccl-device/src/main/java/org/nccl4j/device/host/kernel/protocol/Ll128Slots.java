package org.nccl4j.device.host.kernel.protocol;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.kernel.ConnectionLayout;

/**
 * The LL128 slots of a connection between ranks of the host device. Small steps have slots of their
 * own, more than the others: a sender that is ahead, as the root of a broadcast is, would otherwise
 * stand still for a flight each way every eight steps, which are over sooner than that. They lie in
 * the first 8 KiB of the data side, among the words of channels that the host device does not use.
 * Both ends know the bytes of a step, and so where it is.
 */
final class Ll128Slots {
  /** Most bytes of a step that shares one cache line with its flag. */
  static final int LINE_DATA = 64 - ConnectionEnd.LL128_DATA;

  /** Slots of one cache line. */
  static final int LINES = 64;

  /** Offset of the slots of one line. */
  static final int LINES_AT = 4096;

  private static final int LINE_BYTES = 64;

  /** Most bytes of a step that takes three cache lines, its flag included. */
  static final int TRIPLE_DATA = 192 - ConnectionEnd.LL128_DATA;

  /** Slots of three cache lines. */
  static final int TRIPLES = 16;

  /** Offset of the slots of three lines. */
  static final int TRIPLES_AT = 1024;

  private static final int TRIPLE_BYTES = 192;

  private Ll128Slots() {}

  /**
   * Returns the number of slots for steps of this many bytes. Step s uses slot s mod this number.
   */
  @HotPath
  static int count(int bytes) {
    return bytes <= LINE_DATA ? LINES : bytes <= TRIPLE_DATA ? TRIPLES : ConnectionLayout.STEPS;
  }

  /** Offset in the data side of a step's slot, which begins with its flag. */
  @HotPath
  static long slot(ConnectionLayout layout, long step, int bytes) {
    if (bytes <= LINE_DATA) {
      return LINES_AT + (step & (LINES - 1)) * LINE_BYTES;
    }
    if (bytes <= TRIPLE_DATA) {
      return TRIPLES_AT + (step & (TRIPLES - 1)) * TRIPLE_BYTES;
    }
    return layout.ll128(step);
  }
}
