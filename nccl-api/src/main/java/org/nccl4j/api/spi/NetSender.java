package org.nccl4j.api.spi;

import org.nccl4j.device.HotPath;

/** The sending end of a connection. */
public interface NetSender extends NetConnection {
  /**
   * Takes the next step of connecting. Returns true once it is connected.
   *
   * @throws org.nccl4j.device.NcclException if it cannot be connected
   */
  boolean isConnected();

  /**
   * Begins to send a message.
   *
   * @param memory registered with this connection
   * @param offset of the message in the memory, in bytes
   * @param bytes its length, at least 0; at most the matching receive's
   * @param tag matches a receive of the same tag
   * @return the send, or null if none can begin now: call again
   * @throws org.nccl4j.device.NcclException if the connection is broken
   */
  @HotPath
  NetRequest isend(NetMemory memory, long offset, int bytes, int tag);

  /**
   * Sends as {@link #isend(NetMemory, long, int, int)} does, with a note that the receiver reads
   * from {@link NetRequest#note()}. Notes let ranks detect that they make different calls, so a
   * network should carry them if it can at no cost. The default drops the note.
   *
   * @param note 0 for none, which most messages have, to 65535; a message that is not alone in its
   *     group of receives has none
   */
  @HotPath
  default NetRequest isend(NetMemory memory, long offset, int bytes, int tag, int note) {
    return isend(memory, offset, bytes, tag);
  }

  /**
   * Sends as {@link #isend(NetMemory, long, int, int, int)} does, but only once the receiver has
   * told where the message goes: to other memory ({@link NetRequest#redirect}) or not ({@link
   * NetRequest#stay}). Without {@link NetReceiver#tellPlaces} at the other end it does not wait.
   * The default never waits.
   */
  @HotPath
  default NetRequest isendPlaced(NetMemory memory, long offset, int bytes, int tag, int note) {
    return isend(memory, offset, bytes, tag, note);
  }

  /**
   * The broken paths of this connection that others have replaced. Any thread, once it is
   * connected.
   */
  default Failovers failovers() {
    return Failovers.NONE;
  }
}
