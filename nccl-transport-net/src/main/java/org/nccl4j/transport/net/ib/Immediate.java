package org.nccl4j.transport.net.ib;

/**
 * The 32 bits that end a group of receives: the slot in the upper 6, and in the lower 26 the size
 * of its only message, or all ones where the sizes have been written behind the receiver's queue.
 */
final class Immediate {
  private static final int SIZE_BITS = 26;
  private static final int SIZE_ELSEWHERE = (1 << SIZE_BITS) - 1;

  private Immediate() {}

  /** Whether a single message's size fits. */
  static boolean holds(int bytes) {
    return bytes < SIZE_ELSEWHERE;
  }

  static int of(int slot, int bytes) {
    return slot << SIZE_BITS | bytes;
  }

  static int ofSlot(int slot) {
    return slot << SIZE_BITS | SIZE_ELSEWHERE;
  }

  static int slot(int immediate) {
    return immediate >>> SIZE_BITS;
  }

  static boolean hasSize(int immediate) {
    return (immediate & SIZE_ELSEWHERE) != SIZE_ELSEWHERE;
  }

  static int size(int immediate) {
    return immediate & SIZE_ELSEWHERE;
  }
}
