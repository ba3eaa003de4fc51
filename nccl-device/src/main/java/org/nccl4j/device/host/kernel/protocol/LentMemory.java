package org.nccl4j.device.host.kernel.protocol;

import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Map;
import java.util.Queue;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.nccl4j.device.Leases;
import org.nccl4j.device.host.memory.HostMemory;

/**
 * Buffers that the ranks of this process lend, by the numbers in their offers, and the pattern by
 * which a receiver recognizes this process. Any thread.
 */
final class LentMemory {
  private static final ByteBuffer PATTERN = newPattern();
  private static final Map<Long, WeakReference<HostMemory[]>> LENT = new ConcurrentHashMap<>();
  private static final AtomicLong NEXT = new AtomicLong(1);

  /** Memory that a peer may read at any time from now on; kept reachable and mapped. */
  private static final Queue<HostMemory> KEPT = new ConcurrentLinkedQueue<>();

  private LentMemory() {}

  /** Gives a sender's lent memory a number. */
  static long add(HostMemory[] lent) {
    long number = NEXT.getAndIncrement();
    LENT.put(number, new WeakReference<>(lent));
    return number;
  }

  /** The lent memory of a number; null if there is none. */
  static HostMemory[] find(long number) {
    WeakReference<HostMemory[]> reference = LENT.get(number);
    return reference == null ? null : reference.get();
  }

  static void remove(long number) {
    LENT.remove(number);
  }

  /** Keeps a memory mapped for good. */
  static void keep(HostMemory memory) {
    Leases.of(memory).extend();
    KEPT.add(memory);
  }

  /** The address of this process's pattern. */
  static long patternAddress() {
    return HostMemory.addressOf(PATTERN);
  }

  /** A word of this process's pattern: 0 or 1. */
  static long pattern(int word) {
    return PATTERN.getLong(word * Long.BYTES);
  }

  private static ByteBuffer newPattern() {
    ByteBuffer bytes = ByteBuffer.allocateDirect(2 * Long.BYTES).order(ByteOrder.nativeOrder());
    SplittableRandom random =
        new SplittableRandom(System.nanoTime() ^ ProcessHandle.current().pid() << Integer.SIZE);
    return bytes.putLong(0, random.nextLong()).putLong(Long.BYTES, random.nextLong());
  }
}
