package org.nccl4j.device.connection;

/**
 * The layout of the two regions of a connection; see the package's description.
 *
 * @param llSlotBytes bytes of one LL slot, flags included; a multiple of 16
 * @param ll128SlotBytes bytes of one LL128 slot, flags included; a multiple of 128, or 0 where the
 *     device does not use LL128
 * @param simpleSlotBytes bytes of one Simple slot; a multiple of 128
 * @param smallBytes bytes behind all slots, for small steps of the host device: {@link
 *     #SMALL_BYTES}, or 0 where GPUs use the connection
 */
public record ConnectionLayout(
    int llSlotBytes, int ll128SlotBytes, int simpleSlotBytes, int smallBytes) {
  /** Slots of each protocol, and steps that a sender may be ahead of the receiver. */
  public static final int STEPS = 8;

  /** Offset of the tail word in the data side. */
  public static final long TAIL = 0;

  /** Bytes from a channel's tail to its sizes: 4 bytes for each slot, in the tail's cache line. */
  public static final long SIZES = 32;

  /**
   * Mark in the size of a step of a carried channel: the step is in LL, without a tail. Its size is
   * {@link #LINES_SIZE} bits higher, and the call's signature is in the lowest 16. The proxy sets
   * it to 0 before the head.
   */
  public static final int LINES = 1 << 31;

  /** Lowest bit of the size of a step with that mark. */
  public static final int LINES_SIZE = 16;

  /**
   * Mark in the size of a step of a carried channel, without {@link #LINES}: the data lie in the
   * sender's buffer, at the address in {@link #exposedFrom}. The step's bytes are below.
   */
  public static final int EXPOSED = 1 << 30;

  /**
   * Bytes from a carried channel's head to one more than the last step whose data its kernel wants
   * in its buffer; see {@link #wanted}.
   */
  public static final long WANTED = 32;

  /** Lowest bit of one more than the step in the second word of {@link #wanted}. */
  public static final int WANTED_STEP = 24;

  /** The words below are where the channels would be that no network carries. */
  private static final long UNCARRIED = 4096;

  /** Bytes from a channel's tail to its signatures: 2 bytes for each slot, in its cache line. */
  public static final long SIGNATURES = 16;

  /** Bytes from those that a GPU has for the first half of the slots to those for the second. */
  private static final long MORE_CALLS = 96;

  /** Offset of the head word in the credit side. */
  public static final long HEAD = 0;

  /**
   * Channels that a connection can carry at once. Each has a tail and a head of its own, {@link
   * #WORD_STRIDE} bytes apart, and the same part of every slot. The host device uses channel 0 and
   * whole slots.
   */
  public static final int CHANNELS = 64;

  /** Bytes from one channel's tail or head to the next's, so that none share a cache line. */
  public static final int WORD_STRIDE = 128;

  /** Bytes of the credit side. */
  public static final long CREDIT_BYTES = (long) CHANNELS * WORD_STRIDE;

  /** Bytes of the host device's slots for small steps that have no room among the words. */
  public static final int SMALL_BYTES = 46 << 10;

  private static final long SLOTS = CREDIT_BYTES;

  /** Checks the multiples. */
  public ConnectionLayout {
    if (llSlotBytes % 16 != 0 || ll128SlotBytes % 128 != 0 || simpleSlotBytes % 128 != 0) {
      throw new IllegalArgumentException(
          "slot sizes %d, %d, %d".formatted(llSlotBytes, ll128SlotBytes, simpleSlotBytes));
    }
  }

  /** A layout with room for small steps of the host device. */
  public ConnectionLayout(int llSlotBytes, int ll128SlotBytes, int simpleSlotBytes) {
    this(llSlotBytes, ll128SlotBytes, simpleSlotBytes, SMALL_BYTES);
  }

  /** Offset in the data side of the size of a step of channel 0. */
  public static long size(long step) {
    return TAIL + SIZES + (step & (STEPS - 1)) * Integer.BYTES;
  }

  /** Offset in the data side of the signature of a step of channel 0. */
  public static long signature(long step) {
    return TAIL + SIGNATURES + (step & (STEPS - 1)) * Short.BYTES;
  }

  /** Offset in the data side of the 4 bytes by which a GPU says of which call a step is. */
  public static long call(long step) {
    long slot = step & (STEPS - 1);
    long more = slot < STEPS / 2 ? 0 : MORE_CALLS;
    return TAIL + SIGNATURES + more + (slot & (STEPS / 2 - 1)) * Integer.BYTES;
  }

  /** Bytes from a carried channel's tail to the address of an exposed step's data. */
  public static long exposedFrom(long step) {
    return UNCARRIED + (step & (STEPS - 1)) * Long.BYTES;
  }

  /**
   * Bytes from a carried channel's tail to the word with one more than a step: the proxy has
   * received the step's data in the kernel's buffer.
   */
  public static long placed(long step) {
    return UNCARRIED + STEPS * Long.BYTES + (step & (STEPS - 1)) * Long.BYTES;
  }

  /**
   * Bytes from a carried channel's head to two words of a step: the address where the kernel wants
   * its data; their bytes, and above one more than the step.
   */
  public static long wanted(long step) {
    return UNCARRIED + (step & (STEPS - 1)) * 2 * Long.BYTES;
  }

  /** Offset in the data side of a channel's tail, and in the credit side of its head. */
  public static int word(int channel) {
    return channel * WORD_STRIDE;
  }

  /** Offset in the data side of the LL slot of a step. */
  public long ll(long step) {
    return SLOTS + (step & (STEPS - 1)) * llSlotBytes;
  }

  /** Offset in the data side of the LL128 slot of a step. */
  public long ll128(long step) {
    return SLOTS + (long) STEPS * llSlotBytes + (step & (STEPS - 1)) * ll128SlotBytes;
  }

  /** Offset in the data side of the Simple slot of a step. */
  public long simple(long step) {
    return SLOTS
        + (long) STEPS * (llSlotBytes + ll128SlotBytes)
        + (step & (STEPS - 1)) * simpleSlotBytes;
  }

  /** Offset in the data side of the host device's slots for small steps. */
  public long small() {
    return simple(0) + (long) STEPS * simpleSlotBytes;
  }

  /** Bytes of the data side. */
  public long dataBytes() {
    return small() + smallBytes;
  }
}
