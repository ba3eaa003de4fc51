package org.nccl4j.transport.net.ib;

/**
 * The 32 bits that end a group of receives: the slot in the upper 6, and in the lower 26
 *
 * <pre>
 *   0, then 25 bits     the size of its only message, which has no note
 *   1, 16 bits, 9 bits  note and size of its only message
 *   all ones            sizes, and the note of an only message, are behind the receiver's queue
 * </pre>
 */
final class Immediate {
  private static final int REST_BITS = 26;
  private static final int ELSEWHERE = (1 << REST_BITS) - 1;
  private static final int NOTED = 1 << REST_BITS - 1;
  private static final int SHORT_BITS = 9;
  private static final int SHORT = (1 << SHORT_BITS) - 1;
  private static final int NOTE = 0xffff;

  private Immediate() {}

  /** True if a single message's size fits, with its note. */
  static boolean holds(int bytes, int note) {
    return bytes < (note == 0 ? NOTED : SHORT);
  }

  static int of(int slot, int bytes, int note) {
    return slot << REST_BITS | (note == 0 ? 0 : NOTED | note << SHORT_BITS) | bytes;
  }

  static int ofSlot(int slot) {
    return slot << REST_BITS | ELSEWHERE;
  }

  static int slot(int immediate) {
    return immediate >>> REST_BITS;
  }

  static boolean hasSize(int immediate) {
    return (immediate & ELSEWHERE) != ELSEWHERE;
  }

  static int size(int immediate) {
    return immediate & ((immediate & NOTED) == 0 ? NOTED - 1 : SHORT);
  }

  static int note(int immediate) {
    return (immediate & NOTED) == 0 ? 0 : immediate >>> SHORT_BITS & NOTE;
  }
}
