package org.nccl4j.api.window;

import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.SortedMap;
import java.util.TreeMap;
import java.util.function.Predicate;
import org.nccl4j.api.multicast.MulticastProvider.Exchange;
import org.nccl4j.device.support.Patience;

/**
 * Binds windows to multicast objects that were registered before an operation created NVLS. A
 * thread of the creation does so, while the user's threads may register and drop windows.
 *
 * <p>A registration holds the lock of this object from the time at which all ranks have called it
 * until its window is in the table. So all ranks list a window that any of them has registered, and
 * the creation of NVLS never waits for a registration that other ranks have not called, which they
 * may do only after the operation. All ranks bind the windows that all have listed. A window that
 * only some had registered is not bound, and rank 0 logs that.
 */
final class LateMulticastBinding {
  /** Bytes that a rank says at once where the ranks compare their windows. */
  private static final int PART_BYTES = 1 << 10;

  private final WindowTable table;
  private final MulticastBinder binder;

  /** Windows that this rank has listed, until they are covered. Guarded by this. */
  private Set<RegisteredWindow> listed = Set.of();

  /** True once this rank has listed its windows. Guarded by this. */
  private boolean begun;

  LateMulticastBinding(WindowTable table, MulticastBinder binder) {
    this.table = table;
    this.binder = binder;
  }

  /** Covers the memory of all users' windows, in step with all other ranks. */
  void run(Exchange exchange) {
    SortedMap<Long, RegisteredWindow> mine = new TreeMap<>();
    synchronized (this) {
      for (RegisteredWindow window : table.all()) {
        mine.put(window.number(), window);
      }
      listed = Set.copyOf(mine.values());
      begun = true;
    }
    try {
      SortedMap<Long, RegisteredWindow> others = new TreeMap<>(mine);
      retainCommon(exchange, mine.keySet());
      others.keySet().removeAll(mine.keySet());
      others.values().stream().filter(window -> !window.isDropped()).forEach(binder::tellLate);
      for (RegisteredWindow window : mine.values()) {
        if (!window.mapped().isCovered()) {
          window.mapped().cover(binder, exchange);
        }
        window.takeCover();
      }
    } finally {
      synchronized (this) {
        listed = Set.of();
      }
    }
  }

  /**
   * Puts a window into the table.
   *
   * @param covers whether all ranks can reach it by multicast
   */
  synchronized void add(RegisteredWindow window, boolean covers) {
    table.add(window);
    if (begun && !(covers && window.mapped().isCovered())) {
      binder.tellLate(window);
    }
  }

  /** Takes a window out of the table; it is not listed from now on. */
  synchronized void remove(RegisteredWindow window) {
    table.remove(window);
  }

  /**
   * Waits until no window of some is being covered, so that its memory can be unmapped. The making
   * waits for no thread that waits here.
   *
   * @return false if one still is after some time
   */
  boolean awaitEnd(Predicate<RegisteredWindow> some, Duration patience) {
    return Patience.until(() -> !isListed(some), patience);
  }

  private synchronized boolean isListed(Predicate<RegisteredWindow> some) {
    return listed.stream().anyMatch(some);
  }

  /** Keeps the numbers that all ranks have. */
  private static void retainCommon(Exchange exchange, Set<Long> mine) {
    ByteBuffer said = ByteBuffer.allocate(mine.size() * Long.BYTES);
    mine.forEach(said::putLong);
    for (byte[] theirs : whole(exchange, said.array())) {
      Set<Long> numbers = new HashSet<>();
      for (ByteBuffer left = ByteBuffer.wrap(theirs); left.hasRemaining(); ) {
        numbers.add(left.getLong());
      }
      mine.retainAll(numbers);
    }
  }

  /** All ranks' bytes, a part of each at a time: an exchange may cut what is longer. */
  private static List<byte[]> whole(Exchange exchange, byte[] mine) {
    Map<Integer, ByteArrayOutputStream> wholes = new TreeMap<>();
    boolean more = true;
    for (int at = 0; more; at += PART_BYTES) {
      int begin = Math.min(at, mine.length);
      int end = Math.min(mine.length, begin + PART_BYTES);
      List<byte[]> parts = exchange.allGather(Arrays.copyOfRange(mine, begin, end));
      more = false;
      for (int rank = 0; rank < parts.size(); rank++) {
        byte[] part = parts.get(rank);
        wholes.computeIfAbsent(rank, none -> new ByteArrayOutputStream()).writeBytes(part);
        more |= part.length == PART_BYTES;
      }
    }
    return wholes.values().stream().map(ByteArrayOutputStream::toByteArray).toList();
  }
}
