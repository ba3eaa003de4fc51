package org.nccl4j.api.spi;

import org.nccl4j.device.HotPath;

/** The sending end of a connection. */
public interface NetSender extends NetConnection {
  /**
   * Takes the next step towards being connected and says whether it is.
   *
   * @throws org.nccl4j.device.NcclException if it cannot be connected
   */
  boolean isConnected();

  /**
   * Begins to send a message.
   *
   * @param memory registered with this connection
   * @param offset where the message begins in it, in bytes
   * @param bytes its length, at least 0; at most the matching receive's
   * @param tag matches a receive of the same tag
   * @return the send, or null if none can begin now: call again
   * @throws org.nccl4j.device.NcclException if the connection is broken
   */
  @HotPath
  NetRequest isend(NetMemory memory, long offset, int bytes, int tag);
}
