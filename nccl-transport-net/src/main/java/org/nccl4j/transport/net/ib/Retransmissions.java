package org.nccl4j.transport.net.ib;

/**
 * The groups that a sender sends again over other queue pairs, once the receiver has announced them
 * there. Owned by the thread that has the connection's turn.
 */
final class Retransmissions {
  private final long[] groups = new long[ClearToSend.SLOTS];

  /** A bit for each slot whose group is not sent again yet. */
  private long due;

  /** Forgets all. */
  void begin() {
    due = 0;
  }

  void add(int slot, long group) {
    groups[slot] = group;
    due |= 1L << slot;
  }

  /** True if a slot's group is still to be sent again. */
  boolean isDue(int slot) {
    return (due >>> slot & 1) != 0;
  }

  boolean isGroup(int slot, long group) {
    return isDue(slot) && groups[slot] == group;
  }

  long group(int slot) {
    return groups[slot];
  }

  /** The group of a slot, which is sent again now. */
  long take(int slot) {
    due &= ~(1L << slot);
    return groups[slot];
  }

  /** The first slot with a group that is due; negative if there is none. */
  int first() {
    return next(-1);
  }

  /** The first such slot behind another. */
  int next(int slot) {
    long rest = slot == ClearToSend.SLOTS - 1 ? 0 : due >>> slot + 1 << slot + 1;
    return rest == 0 ? -1 : Long.numberOfTrailingZeros(rest);
  }
}
