package org.nccl4j.device.host.kernel;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.memory.Words;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;

/**
 * The connection of a head to all ranks, on which its results come back: the head stores into a
 * slot of all memories at once; each rank reads its own. Owned by the thread that runs the
 * communicator's current kernel.
 */
final class NvlsBroadcast {
  final int head;
  private final int peer;
  private final HostMemory own;
  private final MulticastAccess all;
  private final NvlsLayout layout;
  private final long base;

  /** Steps that the head, if this rank is it, filled, and that this rank emptied. */
  private long filled;

  private long emptied;

  /** The words when last looked at. */
  private long freed;

  private long full;

  NvlsBroadcast(Nvls nvls, MulticastAccess all, int head) {
    this.head = head;
    this.peer = nvls.heads().get(head);
    this.own = HostMemory.of(nvls.unicast());
    this.all = all;
    this.layout = nvls.layout();
    this.base = layout.broadcast(head, 0);
  }

  /** The head: waits until all ranks' slots of the next step are free, and returns their offset. */
  @HotPath
  long awaitAllFree(Waiter waiter) {
    long wanted = filled - ConnectionLayout.STEPS;
    if (freed <= wanted) {
      freed = all.awaitLeastGreater(waiter, base + layout.head(), wanted, "a free NVLS buffer");
    }
    return base + layout.slot(filled);
  }

  /** The head: the offset of the slot of a step after the next one. */
  @HotPath
  long slotAhead(int steps) {
    return base + layout.slot(filled + steps);
  }

  /** The head: all ranks' slots are full. */
  @HotPath
  void post() {
    filled++;
    all.storeRelease(base + layout.tail(), filled);
  }

  /** Any rank: waits until its slot of the next step is full, and returns its offset. */
  @HotPath
  long awaitFull(Waiter waiter) {
    if (full <= emptied) {
      full = waiter.awaitGreater(own, base + layout.tail(), emptied, peer, "data");
    }
    return base + layout.slot(emptied);
  }

  /** Any rank: its slot is free again. */
  @HotPath
  void release() {
    emptied++;
    Words.storeRelease(own, base + layout.head(), emptied);
  }
}
