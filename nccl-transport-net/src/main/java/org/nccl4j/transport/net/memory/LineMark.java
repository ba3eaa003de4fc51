package org.nccl4j.transport.net.memory;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.ConnectionLayout;

/** The mark of messages of a GPU's channel that hold the packed lines of a step in LL. */
public enum LineMark {
  /** LL is not carried. */
  NONE,

  /** By its note. */
  NOTE,

  /**
   * By its size, over a network without notes: one byte more than the packed lines, whose size is a
   * multiple of 8. A step in Simple that has such a size by chance is sent with a byte of its slot
   * behind it, wherever that slot is: the receiver may carry LL where the sender does not. Kernels
   * know the sizes of what they receive.
   */
  SIZE;

  private static final int UNIT = 8;

  /** The mark of networks with and without notes. */
  public static LineMark of(boolean notes) {
    return notes ? NOTE : SIZE;
  }

  /** Most bytes of a step in Simple that could be taken for packed lines; 0 if none could. */
  public int mostPadded(ConnectionLayout layout) {
    return this == SIZE ? GpuLineSlots.most(layout) + 1 : 0;
  }

  /** True if a step in Simple of so many bytes may come in a longer message. */
  @HotPath
  public static boolean mayBePadded(int bytes) {
    return bytes % UNIT == 1;
  }

  /**
   * True if a size says that a message holds lines.
   *
   * @param most bytes of packed lines
   */
  @HotPath
  static boolean isOfLines(int bytes, int most) {
    return mayBePadded(bytes) && bytes > UNIT && bytes <= most + 1;
  }
}
