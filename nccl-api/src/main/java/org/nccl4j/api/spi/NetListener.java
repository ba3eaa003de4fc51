package org.nccl4j.api.spi;

/** Waits for one connection of another rank. Called by one thread at a time. */
public interface NetListener extends AutoCloseable {
  /** Most bytes of a handle. */
  int HANDLE_BYTES = 136;

  /** The data that the sender needs to connect; at most {@link #HANDLE_BYTES} bytes. */
  byte[] handle();

  /**
   * Takes the next step towards a connection.
   *
   * @return the receiving end once it is connected, else null; once only
   * @throws org.nccl4j.device.NcclException if it cannot be connected; a connection without the
   *     communicator's secret is refused without an exception
   */
  NetReceiver accept();

  /** Stops listening; the accepted connection stays. Calling it again does nothing. */
  @Override
  void close();
}
