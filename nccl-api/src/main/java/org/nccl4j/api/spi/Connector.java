package org.nccl4j.api.spi;

import java.util.Optional;
import java.util.OptionalInt;
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
   * The rank of this host whose transport of the same name forwards the data of this end; that
   * transport gets this end's handle ({@link Transport#relay}) and the other end's. Called once,
   * with the handle.
   */
  default OptionalInt relay() {
    return OptionalInt.empty();
  }

  /**
   * Bytes of data that this end has sent, if its transport counts them; data that kernels send
   * without a proxy are counted by their device. Any thread, at any time.
   */
  default long bytesSent() {
    return 0;
  }

  /**
   * Bytes of these data that the other end has. A link that moves data slowly is told from one that
   * has none to move by the difference. Any thread, at any time.
   */
  default long bytesDelivered() {
    return bytesSent();
  }

  /** Bytes of data that this end has received, if its transport counts them. Any thread. */
  default long bytesReceived() {
    return 0;
  }

  /**
   * True if this receiving end has room for data that have not come: if they come slowly, it is not
   * this end that keeps them waiting. Any thread, at any time.
   */
  default boolean hasRoom() {
    return false;
  }

  /**
   * The network and the device through which this end sends or receives, such as {@code
   * Socket/eth0}; empty if it uses none. Reports of a job compare the speeds of links that name the
   * same network. Any thread, at any time.
   */
  default String via() {
    return "";
  }

  /** The broken paths of this end that others have replaced. Any thread, at any time. */
  default TakeOvers takeOvers() {
    return TakeOvers.NONE;
  }
}
