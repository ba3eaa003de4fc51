package org.nccl4j.device.host.kernel;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.memory.Words;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;

/**
 * The connection of all ranks to a head, on which their parts are combined: each rank fills a slot
 * of its own memory; the head, once all have, loads the slots combined. Owned by the thread that
 * runs the communicator's current kernel.
 */
final class NvlsReduce {
  final int head;
  private final int peer;
  private final HostMemory own;
  private final MulticastAccess all;
  private final NvlsLayout layout;
  private final long base;

  /** Steps that this rank filled, and that the head, if this rank is it, emptied. */
  private long filled;

  private long emptied;

  /** The words when last looked at. */
  private long freed;

  private long full;

  NvlsReduce(Nvls nvls, MulticastAccess all, int head) {
    this.head = head;
    this.peer = nvls.heads().get(head);
    this.own = HostMemory.of(nvls.unicast());
    this.all = all;
    this.layout = nvls.layout();
    this.base = layout.reduce(head, 0);
  }

  /** Any rank: waits until its slot of the next step is free, and returns its offset. */
  @HotPath
  long awaitFree(Waiter waiter) {
    long wanted = filled - ConnectionLayout.STEPS;
    if (freed <= wanted) {
      freed = waiter.awaitGreater(own, base + layout.head(), wanted, peer, "a free NVLS buffer");
    }
    return base + layout.slot(filled);
  }

  /** Any rank: its slot is full. */
  @HotPath
  void post() {
    filled++;
    Words.storeRelease(own, base + layout.tail(), filled);
  }

  /** The head: waits until all ranks' slots of the next step are full, and returns their offset. */
  @HotPath
  long awaitAll(Waiter waiter) {
    if (full <= emptied) {
      full = all.awaitLeastGreater(waiter, base + layout.tail(), emptied, "data");
    }
    return base + layout.slot(emptied);
  }

  /** The head: all ranks' slots are free again. */
  @HotPath
  void release() {
    emptied++;
    all.storeRelease(base + layout.head(), emptied);
  }
}
