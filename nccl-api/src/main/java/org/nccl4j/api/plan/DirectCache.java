package org.nccl4j.api.plan;

import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.KernelPlan;

/**
 * What was decided, by the operation's shape and the windows of its buffers. A fixed number of
 * places; a new entry takes the place of an old one of the same hash. A window that was dropped is
 * never found again, so what was decided for it does no harm. Used by one thread at a time.
 */
final class DirectCache {
  private static final int PLACES = 1024;

  /**
   * A decision.
   *
   * @param plan null for the way without windows
   */
  record Entry(
      Func func,
      long count,
      DataType type,
      RedOp op,
      int root,
      RegisteredWindow from,
      RegisteredWindow to,
      boolean overlaps,
      KernelPlan plan) {}

  private final Entry[] entries = new Entry[PLACES];

  @HotPath
  Entry find(
      Func func,
      long count,
      DataType type,
      RedOp op,
      int root,
      RegisteredWindow from,
      RegisteredWindow to,
      boolean overlaps) {
    Entry entry = entries[place(func, count, type, op, root, from, to)];
    return entry != null
            && entry.count == count
            && entry.func == func
            && entry.type == type
            && entry.op == op
            && entry.root == root
            && entry.from == from
            && entry.to == to
            && entry.overlaps == overlaps
        ? entry
        : null;
  }

  Entry put(Entry entry) {
    entries[
            place(
                entry.func, entry.count, entry.type, entry.op, entry.root, entry.from, entry.to)] =
        entry;
    return entry;
  }

  @HotPath
  private static int place(
      Func func,
      long count,
      DataType type,
      RedOp op,
      int root,
      RegisteredWindow from,
      RegisteredWindow to) {
    long hash = count * 31 + func.ordinal();
    hash = hash * 31 + type.ordinal();
    hash = hash * 31 + op.ordinal();
    hash = hash * 31 + root;
    hash = hash * 31 + (from == null ? 0 : from.number());
    hash = (hash * 31 + (to == null ? 0 : to.number())) * 0x9E3779B97F4A7C15L;
    return (int) (hash >>> 54);
  }
}
