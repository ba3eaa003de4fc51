package org.nccl4j.device.host.kernel;

import java.util.List;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.memory.Words;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.kernel.MulticastMemory;

/**
 * Accesses to all ranks' memories at once, as the switch has them, done here one memory after the
 * other: a load combines in the order of the ranks. Owned by the thread that runs the
 * communicator's current kernel.
 */
final class MulticastAccess {
  private final HostMemory[] views;

  MulticastAccess(MulticastMemory memory) {
    List<HostMemory> all = memory.views().stream().map(HostMemory::of).toList();
    this.views = all.toArray(HostMemory[]::new);
  }

  /** All memories' elements at a place, combined, to a target. As multimem.ld_reduce. */
  @HotPath
  void loadReduce(
      Reduction reduction, long offset, HostMemory target, long targetOffset, int count) {
    HostMemory sum = views[0];
    long sumOffset = offset;
    for (int v = 1; v < views.length; v++) {
      reduction.reduce(sum, sumOffset, views[v], offset, target, targetOffset, count);
      sum = target;
      sumOffset = targetOffset;
    }
  }

  /** Bytes to a place of all memories. As multimem.st. */
  @HotPath
  void store(HostMemory source, long sourceOffset, long offset, int bytes) {
    for (HostMemory view : views) {
      Copies.copy(source, sourceOffset, view, offset, bytes);
    }
  }

  /** Publishes a word to all memories, with all that this thread wrote before it. */
  @HotPath
  void storeRelease(long offset, long value) {
    for (HostMemory view : views) {
      Words.storeRelease(view, offset, value);
    }
  }

  /**
   * Waits until the least of all memories' words is greater than a value, and returns it. As
   * polling by multimem.ld_reduce.min.
   */
  @HotPath
  long awaitLeastGreater(Waiter waiter, long offset, long value, String what) {
    long least = Long.MAX_VALUE;
    for (int rank = 0; rank < views.length; rank++) {
      least = Math.min(least, waiter.awaitGreater(views[rank], offset, value, rank, what));
    }
    return least;
  }
}
