package org.nccl4j.it.arch.broken.device.cuda.stream;

import org.nccl4j.it.arch.broken.device.cuda.driver.CallsStream;

/** A room of the CUDA device that names one below it, which names it too. */
public final class CallsDriver {
  /** Names it. */
  public CallsStream below;
}
