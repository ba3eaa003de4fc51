package org.nccl4j.transport.net.ib;

/**
 * The 32 bits that end a group of receives: the slot in the upper 6, and in the lower 26
 *
 * <pre>
 *   0, w, 24 bits       the size of its only message, which has no note
 *   1, 16 bits, 9 bits  note and size of its only message, of which no other part comes
 *   all ones but w      sizes, and the note of an only message, are behind the receiver's queue
 * </pre>
 *
 * <p>w is 1 if the group came over one queue pair, so that no other one ends it.
 */
final class Immediate {
  private static final int REST_BITS = 26;
  private static final int ELSEWHERE = (1 << REST_BITS) - 2;
  private static final int WHOLE = 1 << REST_BITS - 2;
  private static final int NOTED = 1 << REST_BITS - 1;
  private static final int SHORT_BITS = 9;
  private static final int SHORT = (1 << SHORT_BITS) - 2;
  private static final int SHORT_MASK = (1 << SHORT_BITS) - 1;
  private static final int NOTE = 0xffff;

  private Immediate() {}

  /** True if a single message's size fits, with its note. */
  static boolean holds(int bytes, int note, boolean whole) {
    return note == 0 ? bytes < WHOLE : whole && bytes < SHORT;
  }

  static int of(int slot, int bytes, int note, boolean whole) {
    int rest = note == 0 ? whole ? WHOLE : 0 : NOTED | note << SHORT_BITS;
    return slot << REST_BITS | rest | bytes;
  }

  static int ofSlot(int slot, boolean whole) {
    return slot << REST_BITS | ELSEWHERE | (whole ? 1 : 0);
  }

  static int slot(int immediate) {
    return immediate >>> REST_BITS;
  }

  static boolean hasSize(int immediate) {
    return (immediate & ELSEWHERE) != ELSEWHERE;
  }

  /** True if the group came over one queue pair. */
  static boolean isWhole(int immediate) {
    return hasSize(immediate) ? (immediate & (NOTED | WHOLE)) != 0 : (immediate & 1) != 0;
  }

  static int size(int immediate) {
    return immediate & ((immediate & NOTED) == 0 ? WHOLE - 1 : SHORT_MASK);
  }

  static int note(int immediate) {
    return (immediate & NOTED) == 0 ? 0 : immediate >>> SHORT_BITS & NOTE;
  }
}
