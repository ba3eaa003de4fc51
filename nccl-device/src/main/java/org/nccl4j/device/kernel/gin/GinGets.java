package org.nccl4j.device.kernel.gin;

import java.util.ArrayDeque;

/**
 * The gets of one rank from this rank's windows that are not answered, in order. Owned by the
 * thread that gives the proxy its turn.
 */
final class GinGets {
  /** Most gets from one rank at once, so that its messages never wait for answers to it. */
  static final int MOST = 32;

  private final ArrayDeque<Get> waiting = new ArrayDeque<>(MOST);

  /** Bytes of the oldest that are in messages. */
  private long sent;

  /**
   * A get from a window of this rank.
   *
   * @param after the last copy into this rank's windows that has to be done first
   * @param toWindow the asking rank's
   */
  record Get(long after, long window, long offset, long toWindow, long toOffset, long bytes) {}

  void add(Get get) {
    waiting.add(get);
  }

  /** True if the rank cannot ask for more now. */
  boolean isFull() {
    return waiting.size() == MOST;
  }

  /** The oldest get, if it can be answered once some copies are done; else null. */
  Get next(long copied) {
    Get oldest = waiting.peek();
    return oldest != null && oldest.after <= copied ? oldest : null;
  }

  /** Bytes of the oldest get that are in messages. */
  long sent() {
    return sent;
  }

  /** So many more bytes of the oldest get are in messages. */
  void sent(long part) {
    sent += part;
    if (sent == waiting.element().bytes) {
      waiting.remove();
      sent = 0;
    }
  }
}
