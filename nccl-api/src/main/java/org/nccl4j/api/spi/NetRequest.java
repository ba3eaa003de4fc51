package org.nccl4j.api.spi;

import org.nccl4j.device.HotPath;

/** A send, receive or flush in progress. It belongs to its connection, which reuses it. */
public interface NetRequest {
  /**
   * Makes progress and says whether it has ended: for a send, that its memory may be written again;
   * for a receive, that the data are there. After true the request must not be used again, but for
   * {@link #note()}.
   *
   * @param sizes where a receive that has ended puts the bytes of each of its messages; may be null
   * @throws org.nccl4j.device.NcclException if the connection is broken
   */
  @HotPath
  boolean test(int[] sizes);

  /**
   * True if it goes on only while it is tested. False if all that is left is that the other end
   * confirms a send, or that the network's own threads go on with it: its memory is still needed,
   * but nobody has to test it for the other end's sake.
   */
  @HotPath
  default boolean needsTurns() {
    return true;
  }

  /**
   * The note that came with the message of a receive, 0 if none did. To be asked right after {@link
   * #test} has said true.
   */
  @HotPath
  default int note() {
    return 0;
  }
}
