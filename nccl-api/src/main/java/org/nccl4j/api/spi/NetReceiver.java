package org.nccl4j.api.spi;

import org.nccl4j.device.HotPath;

/** The receiving end of a connection. */
public interface NetReceiver extends NetConnection {
  /**
   * Begins to receive a group of messages; it ends when all have arrived. The arrays are read
   * before it returns.
   *
   * @param n messages, 1 to {@link NetDevice#maxReceives()}; the engine passes 1
   * @param memories registered with this connection, one a message
   * @param offsets of each message in its memory, in bytes
   * @param bytes most bytes of each message
   * @param tags each matches a send of the same tag; different within the group
   * @return the receive, or null if none can begin now: call again
   * @throws org.nccl4j.device.NcclException if the connection is broken
   */
  @HotPath
  NetRequest irecv(int n, NetMemory[] memories, long[] offsets, int[] bytes, int[] tags);

  /**
   * True if the other end may wait for an answer to what it has sent, which the tests of a receive
   * will send after some calls. Any thread.
   */
  @HotPath
  default boolean owesAnswer() {
    return false;
  }

  /**
   * True if receives can be moved ({@link NetRequest#redirect}). Otherwise receives of large
   * messages begin in the users' registered buffers where their place is known by then.
   */
  default boolean redirects() {
    return false;
  }

  /**
   * Has the next call of {@link #irecv}, if it begins a receive of one message, begin it as one
   * that has been moved ({@link NetRequest#redirect}), if {@link #redirects}.
   *
   * @return false if it is to be moved once it has begun
   */
  @HotPath
  default boolean redirectNext(NetMemory memory, long offset, int bytes) {
    return false;
  }

  /**
   * From now on each receive whose sender waits for that ({@link NetSender#isendPlaced}) is moved
   * or told to stay. Called before the first receive, if {@link #redirects}.
   */
  default void tellPlaces() {}

  /**
   * Begins to make received data visible to the GPU whose memory they are in. The parameters are
   * those of the {@link #irecv} that has ended.
   *
   * @param bytes as received; a message of 0 bytes needs no flush
   * @return the flush, or null if none is needed
   * @throws org.nccl4j.device.NcclException if the connection is broken
   */
  @HotPath
  NetRequest iflush(int n, NetMemory[] memories, long[] offsets, int[] bytes);
}
