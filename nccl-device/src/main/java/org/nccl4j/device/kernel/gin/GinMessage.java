package org.nccl4j.device.kernel.gin;

import org.nccl4j.device.kernel.RmaMessage;

/**
 * A message of kernels' puts and gets, with the fields of a {@link RmaMessage} but for the last:
 *
 * <pre>
 *   put              window, offset, bytes, signal, communicator; data
 *   data behind it   window, offset, {@link #BEHIND}, signal, communicator; u64 bytes
 *   get              window, offset, {@link #GET}, 0, window for the answer; u64 offset in it, u64 bytes
 *   acknowledgement  0, messages and steps that have arrived, {@link #ACKNOWLEDGEMENT}, 0, 0
 * </pre>
 *
 * <p>A signal is one more than its number, 0 for none. The answer to a get is puts with {@link
 * #ANSWER} and, the last, {@link #ANSWERED} for a signal; answers to a rank come in the order of
 * its gets. Behind a {@link #BEHIND} come steps that are data alone, full but for the last.
 */
final class GinMessage {
  /** Place of the number of the device communicator whose signal is raised. */
  static final int COMMUNICATOR = 24;

  // Numbers of bytes that say what a message is.
  static final int ACKNOWLEDGEMENT = -1;
  static final int GET = -2;
  static final int BEHIND = -3;

  // Signals of the data that a rank has asked for.
  static final int ANSWER = -1;
  static final int ANSWERED = -2;

  /** Place of the offset of a get's answer in its window. */
  static final int ANSWER_OFFSET = RmaMessage.HEADER;

  /** Place of a get's number of bytes. */
  static final int GET_BYTES = RmaMessage.HEADER + 8;

  /** Place of the number of bytes in the steps behind a message. */
  static final int BYTES_BEHIND = RmaMessage.HEADER;

  /** Most bytes of a message's data that are not a put's. */
  static final int MOST_BYTES = 16;

  private GinMessage() {}
}
