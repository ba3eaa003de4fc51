package org.nccl4j.device.kernel.gin;

/**
 * The memory of a ring, as {@code nccl4jGinRing} and {@code nccl4jGinDescriptor} of {@code
 * nccl4j_device.cuh}: words, the signals of ranks outside the team, and descriptors.
 */
final class GinLayout {
  /** 0 while kernels can use the ring; written by the processor. */
  static final long STATE = 0;

  /** Descriptors that the proxy has read, so that their places can be used again. */
  static final long TAKEN = 8;

  /** Descriptors of puts whose source can be written again, and of gets whose data are here. */
  static final long FLUSHED = 16;

  /** Descriptors whose data are in the window, and whose signals are raised. */
  static final long ARRIVED = 24;

  /** The last wait of a kernel that ended without success; written by kernels. */
  static final long PROBLEM = 128;

  /** The first signal; each has 8 bytes. */
  static final long SIGNALS = 256;

  static final int DESCRIPTOR_BYTES = 64;

  /** One more than the descriptor's number; written last. */
  static final long SEQUENCE = 0;

  static final long RANK = 8;

  /** The signal to raise; -1 for none. */
  static final long SIGNAL = 12;

  static final long WINDOW = 16;
  static final long OFFSET = 24;
  static final long SOURCE_WINDOW = 32;
  static final long SOURCE_OFFSET = 40;
  static final long BYTES = 48;

  /** 1 if the data go from the window to the source: a get. */
  static final long KIND = 56;

  static final long PUT = 0;
  static final long GET = 1;

  private GinLayout() {}

  /** Offset of the descriptors behind some signals. */
  static long descriptors(int signals) {
    return (SIGNALS + 8L * signals + 127) / 128 * 128;
  }

  static long bytes(int signals, int slots) {
    return descriptors(signals) + (long) slots * DESCRIPTOR_BYTES;
  }
}
