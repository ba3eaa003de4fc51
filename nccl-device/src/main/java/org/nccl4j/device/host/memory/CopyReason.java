package org.nccl4j.device.host.memory;

import java.util.concurrent.atomic.AtomicBoolean;

/**
 * A reason why other processes cannot map some of this process's memories, so that data from these
 * are copied twice. Told once. Any thread.
 */
public final class CopyReason {
  private final String text;
  private final AtomicBoolean told = new AtomicBoolean();

  /** A reason, with its remedy, as a message has it. */
  public CopyReason(String text) {
    this.text = text;
  }

  /** True for the first caller, who is to tell it. */
  public boolean tell() {
    return !told.get() && told.compareAndSet(false, true);
  }

  @Override
  public String toString() {
    return text;
  }
}
