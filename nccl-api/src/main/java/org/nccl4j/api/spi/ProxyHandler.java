package org.nccl4j.api.spi;

import org.nccl4j.device.HotPath;

/**
 * Moves a connection's data between the two ends' regions while kernels run. Called by one thread
 * at a time: the communicator's proxy thread, or a kernel of the host device that waits.
 */
public interface ProxyHandler {
  /**
   * Does the work that is possible now, without waiting. Returns the amount of work done; 0 for
   * none.
   *
   * @throws org.nccl4j.device.NcclException if the connection is broken; the communicator is then
   *     aborted with it
   */
  @HotPath
  int doWork();

  /**
   * True if it must be called although no kernel waits for it, for example while data posted by a
   * kernel have not been sent. Any thread may call it, at any time. A communicator closes only
   * after this has become false.
   */
  @HotPath
  default boolean isUnderWay() {
    return true;
  }

  /**
   * A kernel has failed: ends the use of buffers that it has exposed. Nothing is sent any more.
   * Called by the thread of the kernel, while no other is inside.
   *
   * @throws org.nccl4j.device.NcclException if a buffer may still be in use; it is then never freed
   */
  default void endExposures() {}

  /**
   * The users' windows are no longer written to: ends the receives in progress that may write to
   * them. Called by one thread, while no other is inside.
   *
   * @throws org.nccl4j.device.NcclException if they do not end
   */
  default void endReceives() {}

  /**
   * Memory of the user has been deregistered: ends what networks know of it, at the latest once no
   * message is in progress. Called by one thread, while no other is inside.
   */
  default void forgetBuffers() {}

  /**
   * True if it must be called at all times, because the device's waiting kernels do not call
   * handlers, as on a GPU. Always the same.
   */
  default boolean isPolled() {
    return false;
  }
}
