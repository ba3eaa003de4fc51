package org.nccl4j.transport.net.ib;

/**
 * The 32 bits that end a group of receives: the slot in the upper 6, and in the lower 26
 *
 * <pre>
 *   0, w, m, 23 bits    the size of its only message, which has no note
 *   1, 16 bits, 9 bits  note and size of its only message, of which no other part comes
 *   all ones but w      sizes, and what else there is of an only message, are behind the queue
 * </pre>
 *
 * <p>w is 1 if the group came over one queue pair, so that no other one ends it. m is 1 if the
 * message is in the other memory of {@link ClearToSend}.
 */
final class Immediate {
  private static final int REST_BITS = 26;
  private static final int ELSEWHERE = (1 << REST_BITS) - 2;
  private static final int WHOLE = 1 << REST_BITS - 2;
  private static final int MOVED = 1 << REST_BITS - 3;
  private static final int NOTED = 1 << REST_BITS - 1;
  private static final int SHORT_BITS = 9;
  private static final int SHORT = (1 << SHORT_BITS) - 2;
  private static final int SHORT_MASK = (1 << SHORT_BITS) - 1;
  private static final int NOTE = 0xffff;

  private Immediate() {}

  /** True if a single message's size fits, with its note and where it is. */
  static boolean holds(int bytes, int note, boolean whole, boolean moved) {
    return note == 0 ? bytes < MOVED : whole && !moved && bytes < SHORT;
  }

  static int of(int slot, int bytes, int note, boolean whole, boolean moved) {
    int rest = (whole ? WHOLE : 0) | (moved ? MOVED : 0);
    return slot << REST_BITS | (note == 0 ? rest : NOTED | note << SHORT_BITS) | bytes;
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
    return immediate & ((immediate & NOTED) == 0 ? MOVED - 1 : SHORT_MASK);
  }

  /** True if a message whose size is here is in its other memory. */
  static boolean isMoved(int immediate) {
    return (immediate & (NOTED | MOVED)) == MOVED;
  }

  static int note(int immediate) {
    return (immediate & NOTED) == 0 ? 0 : immediate >>> SHORT_BITS & NOTE;
  }
}
