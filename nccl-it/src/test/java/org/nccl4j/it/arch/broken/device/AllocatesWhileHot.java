package org.nccl4j.it.arch.broken.device;

import org.nccl4j.device.HotPath;

/** Makes an object and an array, boxes, captures a variable and locks, each in a hot path. */
public class AllocatesWhileHot {
  @HotPath
  public Object makes() {
    return new Object();
  }

  @HotPath
  public int[] makesArray() {
    return new int[2];
  }

  @HotPath
  public Object boxes(int number) {
    return number;
  }

  @HotPath
  public Runnable captures(Object variable) {
    return variable::notifyAll;
  }

  @HotPath
  public synchronized void isSynchronized() {}

  @HotPath
  public int locks(int number) {
    synchronized (this) {
      return number;
    }
  }

  /** No violation. */
  @HotPath
  public int throwsAlone(int number) {
    if (number < 0) {
      throw new IllegalStateException("number " + number);
    }
    return number;
  }
}
