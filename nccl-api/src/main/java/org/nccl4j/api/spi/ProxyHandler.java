package org.nccl4j.api.spi;

/**
 * Moves a connection's data between the two ends' regions while kernels run. Called by the
 * communicator's proxy thread alone, over and over.
 */
public interface ProxyHandler {
  /**
   * Does what can be done now and returns how much it did; 0 when there was nothing. Never waits.
   *
   * @throws org.nccl4j.device.NcclException if the connection is broken; the communicator is then
   *     aborted with it
   */
  int doWork();
}
