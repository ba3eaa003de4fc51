package org.nccl4j.api.plan;

import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.KernelPlan;

/**
 * Plans by the operation's shape. A fixed number of places; a new plan takes the place of an old
 * one of the same hash. Used by one thread at a time; a look-up allocates nothing.
 */
final class PlanCache {
  private static final int PLACES = 1024;

  private record Entry(Func func, long count, DataType type, RedOp op, int root, KernelPlan plan) {}

  private final Entry[] entries = new Entry[PLACES];

  /** The plan of a shape, or null. */
  @HotPath
  KernelPlan find(Func func, long count, DataType type, RedOp op, int root) {
    Entry entry = entries[place(func, count, type, op, root)];
    return entry != null
            && entry.count == count
            && entry.func == func
            && entry.type == type
            && entry.op == op
            && entry.root == root
        ? entry.plan
        : null;
  }

  void put(Func func, long count, DataType type, RedOp op, int root, KernelPlan plan) {
    entries[place(func, count, type, op, root)] = new Entry(func, count, type, op, root, plan);
  }

  @HotPath
  private static int place(Func func, long count, DataType type, RedOp op, int root) {
    long hash = count * 31 + func.ordinal();
    hash = hash * 31 + type.ordinal();
    hash = hash * 31 + op.ordinal();
    hash = (hash * 31 + root) * 0x9E3779B97F4A7C15L;
    return (int) (hash >>> 54);
  }
}
