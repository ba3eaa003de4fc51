package org.nccl4j.api.spi;

import org.nccl4j.device.HotPath;

/**
 * Moves a connection's data between the two ends' regions while kernels run. Called by one thread
 * at a time: the communicator's proxy thread, or a kernel of the host device that waits.
 */
public interface ProxyHandler {
  /**
   * Does what can be done now and returns how much it did; 0 when there was nothing. Never waits.
   *
   * @throws org.nccl4j.device.NcclException if the connection is broken; the communicator is then
   *     aborted with it
   */
  @HotPath
  int doWork();

  /**
   * Whether it has to be called although no kernel waits for it, such as while data that a kernel
   * has posted are not yet on their way. Any thread may call it, at any time. A communicator is not
   * closed before this has become false.
   */
  @HotPath
  default boolean isUnderWay() {
    return true;
  }

  /**
   * Whether it has to be called at all times, since the device's kernels do not call handlers while
   * they wait, as those of a GPU. Always the same.
   */
  default boolean isPolled() {
    return false;
  }
}
