package org.nccl4j.api.plan;

import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.KernelPlan;

/**
 * The plans of the shapes that were used last, by hash, of which two shapes may have the same. A
 * replaced plan is discarded. Plans on any buffers and decisions about buffers in windows have a
 * half each, so that a decision never replaces the plan that it leads to.
 */
final class PlanCache {
  private static final int PLACE_BITS = 10;

  /** Places of a half. */
  private static final int PLACES = 1 << PLACE_BITS;

  /**
   * A plan, or a decision.
   *
   * @param from the window that the send buffer lies in; null where there is none
   * @param to likewise of the receive buffer
   * @param overlaps whether the buffers overlap in their windows
   * @param askew whether they lie differently in packs
   * @param plan null for an operation that goes over connections instead
   */
  record Entry(
      long shape,
      long count,
      RegisteredWindow from,
      RegisteredWindow to,
      boolean overlaps,
      boolean askew,
      KernelPlan plan) {}

  private final Entry[] entries = new Entry[2 * PLACES];

  /** The plan of a shape on any buffers, or null. */
  @HotPath
  KernelPlan find(long shape, long count) {
    int place = place(CallShape.hash(shape, count));
    Entry entry = entries[place];
    if (entry == null || entry.count != count || entry.shape != shape) {
      entry = entries[place ^ 1];
    }
    return entry != null && entry.count == count && entry.shape == shape ? entry.plan : null;
  }

  /** Keeps the plan of a shape on any buffers. */
  KernelPlan put(long shape, long count, KernelPlan plan) {
    int place = place(CallShape.hash(shape, count));
    return put(
            place,
            new Entry(shape, count, null, null, /* overlaps= */ false, /* askew= */ false, plan))
        .plan;
  }

  /** The decision of a shape on buffers in windows, or null. */
  @HotPath
  Entry find(
      long shape,
      long count,
      RegisteredWindow from,
      RegisteredWindow to,
      boolean overlaps,
      boolean askew) {
    int place = PLACES + place(hash(shape, count, from, to));
    for (int each = 0; each < 2; each++) {
      Entry entry = entries[place ^ each];
      if (entry != null
          && entry.count == count
          && entry.shape == shape
          && entry.from == from
          && entry.to == to
          && entry.overlaps == overlaps
          && entry.askew == askew) {
        return entry;
      }
    }
    return null;
  }

  /** Keeps a decision of a shape on buffers in windows. */
  Entry put(Entry decision) {
    return put(
        PLACES + place(hash(decision.shape, decision.count, decision.from, decision.to)), decision);
  }

  /** Keeps what was at the place at its neighbour, if there was something. */
  private Entry put(int place, Entry entry) {
    if (entries[place] != null) {
      Entry old = entries[place ^ 1];
      if (old != null && old.plan != null) {
        old.plan.discard();
      }
      entries[place ^ 1] = entries[place];
    }
    entries[place] = entry;
    return entry;
  }

  @HotPath
  private static long hash(long shape, long count, RegisteredWindow from, RegisteredWindow to) {
    long call = CallShape.hash(shape, count);
    if (from == null && to == null) {
      return call;
    }
    long hash = call * 31 + (from == null ? 0 : from.number());
    return hash * 31 + (to == null ? 0 : to.number());
  }

  @HotPath
  private static int place(long hash) {
    return CallShape.place(hash, PLACE_BITS);
  }
}
