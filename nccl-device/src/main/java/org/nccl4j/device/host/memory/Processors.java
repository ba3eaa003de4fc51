package org.nccl4j.device.host.memory;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import org.nccl4j.device.bind.NativeFunction;
import org.nccl4j.device.bind.NativeNames;

/** The processors that threads run on. */
final class Processors {
  /** Processors in a mask; more than any machine has. */
  private static final int MOST = 8192;

  private static final long CURRENT = NativeFunction.find(NativeNames.LIBC, "sched_getcpu");
  private static final long BIND = NativeFunction.find(NativeNames.LIBC, "sched_setaffinity");

  private Processors() {}

  /** The processor that the calling thread runs on; negative if that is not known. */
  static int current() {
    return CURRENT == 0 ? -1 : NativeFunction.call(CURRENT, 0L, 0L, 0L);
  }

  /**
   * Lets the calling thread run on all processors that the process may use, but for one. A new
   * thread is otherwise bound as the thread that started it.
   *
   * @return false if there is no other, or the thread cannot be bound
   */
  static boolean leave(int processor) {
    if (BIND == 0 || processor < 0 || processor >= MOST) {
      return false;
    }
    ByteBuffer mask = ByteBuffer.allocateDirect(MOST / Byte.SIZE);
    for (int at = 0; at < mask.capacity(); at++) {
      mask.put(at, (byte) -1);
    }
    int at = processor / Byte.SIZE; // the mask is of words in little-endian order
    mask.put(at, (byte) ~(1 << processor % Byte.SIZE));
    try {
      return NativeFunction.call(BIND, 0L, (long) mask.capacity(), HostMemory.addressOf(mask)) == 0;
    } finally {
      Reference.reachabilityFence(mask);
    }
  }
}
