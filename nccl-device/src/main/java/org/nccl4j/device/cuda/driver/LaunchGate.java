package org.nccl4j.device.cuda.driver;

import java.util.concurrent.atomic.AtomicLong;
import org.nccl4j.device.HotPath;

/**
 * Says whether a communicator is launching, so that no memory is freed that a launch has found
 * open. A lease of each memory would take four atomic operations a launch; this takes one, and who
 * frees looks at all communicators of the device ({@link LaunchGates}).
 *
 * <p>A launch enters, and then looks whether its memories are over; a thread that frees a memory
 * says that it is over, and then looks whether there is a launch. Both do so in this order for all
 * threads, by a full fence between, so at least one sees the other.
 */
public final class LaunchGate {
  /** Odd while a launch is inside. Written by the thread that launches; read by who frees. */
  private final AtomicLong passages = new AtomicLong();

  /** A launch begins; its later reads happen after all have seen that. */
  @HotPath
  public void enter() {
    passages.set(passages.getPlain() + 1);
  }

  /** The launch has ended, and the driver knows of it. */
  @HotPath
  public void leave() {
    passages.setRelease(passages.getPlain() + 1);
  }

  /** Changes whenever a launch begins or ends. */
  long look() {
    return passages.get();
  }

  /** True if a launch was inside at a look, and still is. */
  boolean isInside(long look) {
    return (look & 1) != 0 && passages.get() == look;
  }
}
