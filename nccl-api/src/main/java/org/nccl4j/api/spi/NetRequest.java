package org.nccl4j.api.spi;

import org.nccl4j.device.HotPath;

/** A send, receive or flush in progress. It belongs to its connection, which reuses it. */
public interface NetRequest {
  /**
   * Makes progress. Returns true once the request has ended: a send's memory may be written again,
   * a receive's data have arrived. After true only {@link #note()} may be called.
   *
   * @param sizes receives the bytes of each message of an ended receive; may be null
   * @throws org.nccl4j.device.NcclException if the connection is broken
   */
  @HotPath
  boolean test(int[] sizes);

  /**
   * True if it makes progress only while it is tested. False if only the other end's confirmation
   * of a send is missing, or if the network's own threads continue it: its memory is still in use,
   * but the other end does not depend on further tests.
   */
  @HotPath
  default boolean needsTurns() {
    return true;
  }

  /**
   * Moves a receive of one message to other memory, if nothing of the message has come yet. If the
   * message turns out to have another size, it goes to the memory of the call that began it.
   *
   * @param memory registered with the connection; not to be freed before the request has ended
   * @param offset of the message in the memory, in bytes
   * @param bytes exact size of the message
   * @return false if it cannot be moved now, or never: most networks cannot
   */
  @HotPath
  default boolean redirect(NetMemory memory, long offset, int bytes) {
    return false;
  }

  /**
   * Tells the sender that a receive of one message is not moved, after {@link
   * NetReceiver#tellPlaces}.
   *
   * @return false if that cannot be told now
   */
  @HotPath
  default boolean stay() {
    return true;
  }

  /**
   * True if the message of a receive has come to the memory that it was moved to. Call it directly
   * after {@link #test} has returned true.
   */
  @HotPath
  default boolean isRedirected() {
    return false;
  }

  /**
   * The note that came with the message of a receive; 0 for none. Call it directly after {@link
   * #test} has returned true.
   */
  @HotPath
  default int note() {
    return 0;
  }
}
