package org.nccl4j.device.kernel;

/**
 * The message of a one-sided operation with a rank outside the team, in a Simple slot of a
 * connection that carries only such messages.
 *
 * <pre>
 *   u64 window's number   u64 offset in it   u32 bytes   u32 signals (0 or 1)   u64 unused
 *   data
 * </pre>
 *
 * <p>Messages of one rank arrive in order, so a signal comes after the data before it.
 */
public final class RmaMessage {
  /** Bytes of a message before its data. */
  public static final int HEADER = 32;

  /** Where the offset in the window is; the window's number comes first. */
  public static final int OFFSET = 8;

  /** Where the number of bytes is. */
  public static final int BYTES = 16;

  /** Where the number of signals is. */
  public static final int SIGNALS = 20;

  private RmaMessage() {}
}
