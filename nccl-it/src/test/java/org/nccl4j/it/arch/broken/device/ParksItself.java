package org.nccl4j.it.arch.broken.device;

import java.util.concurrent.locks.LockSupport;

/** Waits in a way that an interruption shortens. */
public class ParksItself {
  public void await() {
    LockSupport.parkNanos(1);
  }
}
