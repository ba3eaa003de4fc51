package org.nccl4j.device.host.kernel.nvls;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.NvlsLayout;

/**
 * A connection between a head and all ranks of its machine, in one direction: on a reduce
 * connection each rank fills a slot of its own memory and the head empties those of all at once; on
 * a broadcast connection the head fills all slots at once and each rank empties its own. So there
 * are two kinds of ends: one sees its own memory, the other, which only the head has, that of all.
 * Owned by the thread that runs the communicator's current kernel.
 */
public final class NvlsConnection {
  private final int peer;
  private final HostMemory own;
  private final MulticastAccess all;
  private final NvlsLayout layout;
  private final long base;

  /** Steps that this rank has filled and emptied. */
  private long filled;

  private long emptied;

  /** The words when last looked at. */
  private long freed;

  private long full;

  private NvlsConnection(Nvls nvls, MulticastAccess all, int head, long base) {
    this.peer = nvls.heads().get(head);
    this.own = HostMemory.of(nvls.unicast());
    this.all = all;
    this.layout = nvls.layout();
    this.base = base;
  }

  /** On which a head's part is combined. */
  static NvlsConnection reduce(Nvls nvls, MulticastAccess all, int head) {
    return new NvlsConnection(nvls, all, head, nvls.layout().reduce(head));
  }

  /** On which a head's results come back. */
  static NvlsConnection broadcast(Nvls nvls, MulticastAccess all, int head) {
    return new NvlsConnection(nvls, all, head, nvls.layout().broadcast(head));
  }

  /** Waits until this rank's slot of the next step is free, and returns its offset. */
  @HotPath
  long awaitFree(SpinWait waiter) {
    long wanted = filled - ConnectionLayout.STEPS;
    if (freed <= wanted) {
      freed = waiter.awaitGreater(own, base + layout.head(), wanted, peer, "a free NVLS buffer");
    }
    return slotAhead(0);
  }

  /** Waits until all ranks' slots of the next step are free, and returns their offset. */
  @HotPath
  long awaitAllFree(SpinWait waiter) {
    long wanted = filled - ConnectionLayout.STEPS;
    if (freed <= wanted) {
      freed = all.awaitLeastGreater(waiter, base + layout.head(), wanted, "a free NVLS buffer");
    }
    return slotAhead(0);
  }

  /** The offset of the slot of a step that comes so many steps after the next one to be filled. */
  @HotPath
  long slotAhead(int steps) {
    return base + layout.slot(filled + steps);
  }

  /** This rank's slot is full. */
  @HotPath
  void post(Call call) {
    long at = base + layout.signature(filled);
    own.window(at).putShort(own.index(at), call.signature);
    filled++;
    AtomicWords.storeRelease(own, base + layout.tail(), filled);
  }

  /** All ranks' slots are full. */
  @HotPath
  void postAll(Call call) {
    all.store(base + layout.signature(filled), call.signature);
    filled++;
    all.storeRelease(base + layout.tail(), filled);
  }

  /** Waits until this rank's slot of the next step is full, and returns its offset. */
  @HotPath
  long awaitFull(SpinWait waiter, Call call) {
    if (full <= emptied) {
      full = waiter.awaitGreater(own, base + layout.tail(), emptied, peer, "data");
    }
    long at = base + layout.signature(emptied);
    if (own.window(at).getShort(own.index(at)) != call.signature) {
      throw waiter.differs(call, peer);
    }
    return base + layout.slot(emptied);
  }

  /** Waits until all ranks' slots of the next step are full, and returns their offset. */
  @HotPath
  long awaitAllFull(SpinWait waiter, Call call) {
    if (full <= emptied) {
      full = all.awaitLeastGreater(waiter, base + layout.tail(), emptied, "data");
    }
    all.compare(waiter, base + layout.signature(emptied), call);
    return base + layout.slot(emptied);
  }

  /** This rank's slot is free again. */
  @HotPath
  void release() {
    emptied++;
    AtomicWords.storeRelease(own, base + layout.head(), emptied);
  }

  /** All ranks' slots are free again. */
  @HotPath
  void releaseAll() {
    emptied++;
    all.storeRelease(base + layout.head(), emptied);
  }
}
