package org.nccl4j.api.plan;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.kernel.KernelPlan;

/**
 * Plans by the operation's shape, in one word, and its count. A fixed number of places; a new plan
 * takes the place of an old one of the same hash, which is discarded. Used by one thread at a time;
 * a look-up allocates nothing.
 */
final class PlanCache {
  private static final int PLACES = 1024;

  record Entry(long shape, long count, KernelPlan plan) {}

  private final Entry[] entries = new Entry[PLACES];

  /** The plan of a shape, or null. */
  @HotPath
  KernelPlan find(long shape, long count) {
    Entry entry = entries[place(shape, count)];
    return entry != null && entry.count == count && entry.shape == shape ? entry.plan : null;
  }

  KernelPlan put(Entry entry) {
    int place = place(entry.shape, entry.count);
    if (entries[place] != null) {
      entries[place].plan.discard();
    }
    entries[place] = entry;
    return entry.plan;
  }

  @HotPath
  private static int place(long shape, long count) {
    return (int) ((count * 31 + shape) * 0x9E3779B97F4A7C15L >>> 54);
  }
}
