package org.nccl4j.transport.net.socket.link;

import java.time.Duration;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.device.support.Patience;
import org.nccl4j.transport.net.socket.silence.MovedException;

/** Makes further sockets for a link, in place of broken ones. Called by a {@link SocketWatch}. */
public interface SpareSockets {
  /** True if the other end has dialled a socket in place of one that may not be known as broken. */
  boolean isOffered(int index);

  /**
   * Takes the next step towards another socket; the socket once both ends know each other, else
   * null.
   *
   * @param index of the broken socket in the connection
   * @throws org.nccl4j.device.NcclException if there will never be one
   */
  DataChannel next(int index);

  /** True if this side dials, so that it judges whether a silent socket is dead. */
  default boolean dials() {
    return false;
  }

  /** True if messages come over the first socket, else acknowledgements alone. */
  default boolean receives() {
    return false;
  }

  /**
   * Takes the next step towards another socket while the one in use stays; true once there is one,
   * which {@link #next} returns. Prefers other addresses to the current one.
   */
  default boolean prepare(int index) {
    return false;
  }

  /**
   * Returns the reason to leave a socket that has not broken: it is silent and another is prepared,
   * or the connection's own address can be reached again. Null for none, or as long as no other
   * socket is there.
   *
   * @param doubtful whether it is silent
   * @param nothing the begin of the reason, before the time
   * @param bound time after which a socket is silent
   */
  default MovedException reasonToMove(int index, boolean doubtful, String nothing, Duration bound) {
    if (doubtful) {
      return prepare(index) ? new MovedException(nothing + Patience.text(bound)) : null;
    }
    drop(index);
    return prepareReturn(index)
        ? new MovedException("the first address can be reached again")
        : null;
  }

  /** True unless a socket leads to another address than the connection's own, to return from. */
  default boolean isAtHome(int index) {
    return true;
  }

  /** Gives up what is prepared. */
  default void drop(int index) {}

  /**
   * As {@link #prepare}, for a socket in use that does not lead to the connection's own address:
   * one that does. Tries now and then.
   */
  default boolean prepareReturn(int index) {
    return false;
  }
}
