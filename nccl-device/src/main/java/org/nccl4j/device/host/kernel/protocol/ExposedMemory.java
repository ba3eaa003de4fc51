package org.nccl4j.device.host.kernel.protocol;

import java.lang.System.Logger;
import java.lang.System.Logger.Level;
import java.lang.ref.WeakReference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Map;
import java.util.Queue;
import java.util.SplittableRandom;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.Leases;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.os.ThisProcess;
import org.nccl4j.device.shm.SharedSegment;

/**
 * Buffers that the ranks of this process expose, by the numbers in their offers, and the pattern by
 * which a receiver recognizes this process. Any thread.
 */
final class ExposedMemory {
  /** Bytes of the segment that holds the pattern. */
  static final long PATTERN_SEGMENT_BYTES = 4096;

  private static final Logger LOG = DebugLog.of("P2P");
  private static final ByteBuffer PATTERN = newPattern();
  private static final Map<Long, WeakReference<HostMemory[]>> EXPOSED = new ConcurrentHashMap<>();
  private static final AtomicLong NEXT = new AtomicLong(1);

  /** Memory that a peer may read at any time from now on; kept reachable and mapped. */
  private static final Queue<HostMemory> KEPT = new ConcurrentLinkedQueue<>();

  /** Closed by its last sender. Senders keep it, so that its class can be unloaded after them. */
  private static WeakReference<SharedSegment> segment = new WeakReference<>(null);

  /** True once the reason was logged why there is no segment. */
  private static boolean told;

  /** Senders that have the segment of the pattern open. */
  private static int segmentUsers;

  private ExposedMemory() {}

  /** Gives a sender's exposed memory a number. */
  static long add(HostMemory[] exposed) {
    long number = NEXT.getAndIncrement();
    EXPOSED.put(number, new WeakReference<>(exposed));
    return number;
  }

  /** The exposed memory of a number; null if there is none. */
  static HostMemory[] find(long number) {
    WeakReference<HostMemory[]> reference = EXPOSED.get(number);
    return reference == null ? null : reference.get();
  }

  static void remove(long number) {
    EXPOSED.remove(number);
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

  /**
   * Returns a segment that holds this process's pattern, which the caller keeps until it closes it
   * by {@link #closePattern}; null where memory cannot be shared.
   */
  static synchronized SharedSegment openPattern() {
    SharedSegment open = segment.get();
    if (open == null) {
      open = newSegment();
      if (open == null) {
        return null;
      }
      segment = new WeakReference<>(open);
    }
    segmentUsers++;
    return open;
  }

  /** A sender needs the segment no more. */
  static synchronized void closePattern(SharedSegment pattern) {
    segmentUsers--;
    if (segmentUsers == 0) {
      segment.clear();
      pattern.close();
    }
  }

  private static SharedSegment newSegment() {
    if (SharedSegment.obstacle().isPresent()) {
      return null;
    }
    try {
      SharedSegment made = SharedSegment.create(PATTERN_SEGMENT_BYTES);
      made.buffer().order(ByteOrder.nativeOrder()).putLong(0, pattern(0));
      made.buffer().order(ByteOrder.nativeOrder()).putLong(Long.BYTES, pattern(1));
      return made;
    } catch (SystemErrorException e) {
      LOG.log(
          told ? Level.DEBUG : Level.INFO,
          "other processes cannot map memory of this one, and data to them are copied twice: {0}",
          e.getMessage());
      told = true;
      return null;
    }
  }

  private static ByteBuffer newPattern() {
    ByteBuffer bytes = ByteBuffer.allocateDirect(2 * Long.BYTES).order(ByteOrder.nativeOrder());
    SplittableRandom random =
        new SplittableRandom(System.nanoTime() ^ ThisProcess.pid() << Integer.SIZE);
    return bytes.putLong(0, random.nextLong()).putLong(Long.BYTES, random.nextLong());
  }
}
