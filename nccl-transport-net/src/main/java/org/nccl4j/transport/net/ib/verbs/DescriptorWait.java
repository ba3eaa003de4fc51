package org.nccl4j.transport.net.ib.verbs;

import org.nccl4j.device.bind.Offheap;
import org.nccl4j.device.shm.OwnedFd;

/**
 * Waits until something can be read from a descriptor, or until another thread ends the waiting.
 */
public final class DescriptorWait implements AutoCloseable {
  private static final int EACH = 8;
  private static final int FOR_EVER = -1;

  /** Two structs pollfd: of the descriptor, and of what ends the waiting. */
  private final Offheap polled = new Offheap(2 * EACH);

  private final Offheap one = new Offheap(Long.BYTES).putLong(0, 1);
  private final OwnedFd end;

  /**
   * Waits for a descriptor, which stays the caller's.
   *
   * @throws org.nccl4j.device.SystemErrorException if this process may not have more descriptors
   */
  public DescriptorWait(int descriptor) {
    end = Descriptors.event();
    Descriptors.want(polled, 0, descriptor);
    Descriptors.want(polled, EACH, end.value());
  }

  /** Waits; of one thread. True if the descriptor can be read; false at the end, or on an error. */
  public boolean await() {
    return Descriptors.poll(polled, 2, FOR_EVER) > 0 && Descriptors.isReadable(polled, 0);
  }

  /** Ends the waiting, once and for all. Any thread. */
  public void end() {
    Descriptors.write(end, one, Long.BYTES);
  }

  /** Nobody waits any more. */
  @Override
  public void close() {
    end.close();
  }
}
