package org.nccl4j.it.arch.broken.device.cuda.driver;

import org.nccl4j.it.arch.broken.device.cuda.stream.CallsDriver;

/** A room of the CUDA device that names one above it. */
public final class CallsStream {
  /** Names it. */
  public CallsDriver above;
}
