package org.nccl4j.api.plan;

import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.kernel.KernelPlan;

/**
 * The plans of the shapes that were used last, by hash; a plan whose place another takes is
 * discarded.
 */
final class PlanCache {
  private static final int PLACES = 1024;

  /**
   * A decision.
   *
   * @param from the window that the send buffer lies in; null where there is none
   * @param to likewise of the receive buffer
   * @param overlaps whether the buffers overlap in their windows
   * @param plan null for an operation that goes over connections instead
   */
  record Entry(
      long shape,
      long count,
      RegisteredWindow from,
      RegisteredWindow to,
      boolean overlaps,
      KernelPlan plan) {
    /** A plan on any buffers. */
    Entry(long shape, long count, KernelPlan plan) {
      this(shape, count, null, null, /* overlaps= */ false, plan);
    }
  }

  private final Entry[] entries = new Entry[PLACES];

  /** The plan of a shape on any buffers, or null; where all entries are of such. */
  @HotPath
  KernelPlan find(long shape, long count) {
    Entry entry = entries[place(count * 31 + shape)];
    return entry != null && entry.count == count && entry.shape == shape ? entry.plan : null;
  }

  /** The decision of a shape on buffers in windows, or null. */
  @HotPath
  Entry find(long shape, long count, RegisteredWindow from, RegisteredWindow to, boolean overlaps) {
    Entry entry = entries[place(hash(shape, count, from, to))];
    return entry != null
            && entry.count == count
            && entry.shape == shape
            && entry.from == from
            && entry.to == to
            && entry.overlaps == overlaps
        ? entry
        : null;
  }

  /** Keeps a decision instead of what had its place. */
  Entry put(Entry entry) {
    int place = place(hash(entry.shape, entry.count, entry.from, entry.to));
    Entry old = entries[place];
    if (old != null && old.plan != null) {
      old.plan.discard();
    }
    entries[place] = entry;
    return entry;
  }

  @HotPath
  private static long hash(long shape, long count, RegisteredWindow from, RegisteredWindow to) {
    long hash = count * 31 + shape;
    if (from == null && to == null) {
      return hash;
    }
    hash = hash * 31 + (from == null ? 0 : from.number());
    return hash * 31 + (to == null ? 0 : to.number());
  }

  @HotPath
  private static int place(long hash) {
    return (int) (hash * 0x9E3779B97F4A7C15L >>> 54);
  }
}
