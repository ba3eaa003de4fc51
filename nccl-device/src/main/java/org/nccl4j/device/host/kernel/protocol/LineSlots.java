package org.nccl4j.device.host.kernel.protocol;

import org.nccl4j.device.symmetric.ResourceLayout;

/**
 * The layout of lines of data and flags in the library's own window on the host, behind the part
 * that all devices have: two halves that operations use in turn, in each a slot for each writing
 * rank.
 *
 * @param team how many ranks
 */
public record LineSlots(int team) {
  /** Most bytes of data that a rank sends in lines, which are twice as many bytes. */
  public static final int DATA_BYTES = 1024;

  public static final int HALVES = 2;

  private static final int SLOT_BYTES = 2 * DATA_BYTES;

  /** Offset of the slot that a rank writes in an operation. */
  public long slot(long operation, int place) {
    return new ResourceLayout(team).rest() + ((operation & HALVES - 1) * team + place) * SLOT_BYTES;
  }

  /** Bytes of the window, all that comes before included. */
  public long bytes() {
    return slot(1, team);
  }
}
