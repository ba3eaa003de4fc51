package org.nccl4j.device.kernel;

/**
 * The message of a one-sided operation with a rank outside the team, in a Simple slot of a
 * connection that carries only such messages.
 *
 * <pre>
 *   u64 window's number   u64 offset in it   u32 bytes   u32 signals (0 or 1)   u64 bytes behind it
 *   data
 * </pre>
 *
 * <p>Of a large put the message announces the steps behind it, which are data alone: full slots but
 * for the last. They are sent from the source and may be received in the window. Their data begin
 * at the offset, those of the message follow them, and the signal comes after all. Puts of kernels
 * use the last word for something else.
 *
 * <p>Messages of one rank arrive in order, so a signal comes after the data before it.
 */
public final class RmaMessage {
  /** Bytes of a message before its data. */
  public static final int HEADER = 32;

  /** Place of the offset in the window. The window's number comes first. */
  public static final int OFFSET = 8;

  /** Place of the number of bytes. */
  public static final int BYTES = 16;

  /** Place of the number of signals. */
  public static final int SIGNALS = 20;

  /** Place of the number of bytes in the steps behind the message. */
  public static final int BEHIND = 24;

  private RmaMessage() {}
}
