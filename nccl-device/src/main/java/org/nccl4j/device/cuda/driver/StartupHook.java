package org.nccl4j.device.cuda.driver;

/**
 * Work of another module while the driver starts and the program makes the GPUs' contexts, so that
 * the first communicator takes less. Found by {@link java.util.ServiceLoader}, and carried out once
 * in a process, where there is a driver.
 */
public interface StartupHook {
  /**
   * Does it, on a thread of its own. Its exceptions are dropped: the code that needs the result
   * later does it again.
   */
  void prepare();
}
