package org.nccl4j.api.spi;

import java.util.Optional;
import org.nccl4j.device.connection.Connection;

/**
 * One end of a connection. Called by one thread at a time, in this order: {@code handle} once,
 * {@code connect} until it returns true, {@code connection}. Its {@code toString} gives its name
 * and the event for which it waits; the message of a passed deadline contains it.
 */
public interface Connector {
  /** Most bytes of a handle. */
  int HANDLE_BYTES = 4096;

  /** The data that the other end needs to connect; at most {@link #HANDLE_BYTES} bytes. */
  byte[] handle();

  /**
   * Takes the next step of connecting. Never waits: the engine calls it again until it returns true
   * or the deadline passes. Returns true once the end is connected.
   *
   * @param remoteHandle the other end's handle, the same bytes at every call
   * @throws org.nccl4j.device.NcclException if it cannot be connected, or the bytes are not a
   *     handle of an opposite end
   */
  boolean connect(byte[] remoteHandle);

  /**
   * Both regions as this end's device sees them.
   *
   * @throws org.nccl4j.device.NcclException before it is connected and after the transport's close
   */
  Connection connection();

  /**
   * Work of the processor while kernels use the connection, if the regions of both ends are not the
   * same memory; empty for memory that both ends address.
   */
  default Optional<ProxyHandler> proxy() {
    return Optional.empty();
  }

  /**
   * The data that this end has moved, and the network that it uses; {@link LinkStatus#NONE} where
   * the transport counts nothing. Any thread, at any time.
   */
  default LinkStatus status() {
    return LinkStatus.NONE;
  }
}
