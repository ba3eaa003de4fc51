package org.nccl4j.device.cuda;

/**
 * Work of another module while the driver starts and the program makes the GPUs' contexts, so that
 * the first communicator takes less time. Found by {@link java.util.ServiceLoader}, and carried out
 * once in a process, where there is a driver.
 */
public interface Preparation {
  /**
   * Does it, on a thread of its own, of which nobody hears. What it throws is dropped: whoever
   * needs it later does it again.
   */
  void prepare();
}
