package org.nccl4j.api.plan;

import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.kernel.KernelPlan;

/**
 * A cache of decisions, by the operation's shape, in one word, its count and the windows of its
 * buffers. A fixed number of places; a new entry takes the place of an old one of the same hash,
 * whose plan is discarded. A window that was dropped is never found again, so what was decided for
 * it does no harm. Used by one thread at a time.
 */
final class DirectCache {
  private static final int PLACES = 1024;

  /**
   * A decision.
   *
   * @param plan null for the way without windows
   */
  record Entry(
      long shape,
      long count,
      RegisteredWindow from,
      RegisteredWindow to,
      boolean overlaps,
      KernelPlan plan) {}

  private final Entry[] entries = new Entry[PLACES];

  @HotPath
  Entry find(long shape, long count, RegisteredWindow from, RegisteredWindow to, boolean overlaps) {
    Entry entry = entries[place(shape, count, from, to)];
    return entry != null
            && entry.count == count
            && entry.shape == shape
            && entry.from == from
            && entry.to == to
            && entry.overlaps == overlaps
        ? entry
        : null;
  }

  Entry put(Entry entry) {
    int place = place(entry.shape, entry.count, entry.from, entry.to);
    Entry old = entries[place];
    if (old != null && old.plan != null) {
      old.plan.discard();
    }
    entries[place] = entry;
    return entry;
  }

  @HotPath
  private static int place(long shape, long count, RegisteredWindow from, RegisteredWindow to) {
    long hash = count * 31 + shape;
    hash = hash * 31 + (from == null ? 0 : from.number());
    hash = (hash * 31 + (to == null ? 0 : to.number())) * 0x9E3779B97F4A7C15L;
    return (int) (hash >>> 54);
  }
}
