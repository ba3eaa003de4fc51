package org.nccl4j.device.host.kernel.window;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.BufferCopies;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.CacheShare;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.OneSidedWork;
import org.nccl4j.device.symmetric.ResourceLayout;
import org.nccl4j.device.symmetric.SymmetricSpace;

/**
 * One-sided operations: data into another rank's window, then its signal word from this rank. Owned
 * by the thread that runs the communicator's current kernel.
 */
public final class RmaKernels {
  private final SymmetricSpace space;
  private final SpinWait waiter;
  private final BufferCopies copies;
  private final CacheShare cache;
  private final HostMemory own;

  /** Offset of the signal word that this rank writes, and of those it reads. */
  private final ResourceLayout layout;

  /** Signals sent to, and waited for from, each rank of the team. */
  private final long[] sent;

  private final long[] awaited;

  public RmaKernels(SymmetricSpace space, SpinWait waiter, BufferCopies copies, CacheShare cache) {
    this.space = space;
    this.waiter = waiter;
    this.copies = copies;
    this.cache = cache;
    this.layout = new ResourceLayout(space.size());
    this.own = HostMemory.of(space.resources().peers().get(space.place()));
    this.sent = new long[space.size()];
    this.awaited = new long[space.size()];
  }

  /**
   * A work's kernel.
   *
   * @param remote for ranks outside the team; null where there are none
   */
  public Kernel of(OneSidedWork work, HostRmaSender remote) {
    if (work instanceof OneSidedWork.Put put) {
      HostMemory target =
          put.bytes() == 0 ? null : HostMemory.of(put.window().peers().get(put.place()));
      boolean leaves = put.bytes() > 0 && cache.isExceeded(put.bytes());
      return (send, recv) -> put(send, target, put, leaves);
    }
    OneSidedWork.Wait wait = (OneSidedWork.Wait) work;
    return (send, recv) -> await(wait, remote);
  }

  @HotPath
  private void put(HostMemory source, HostMemory target, OneSidedWork.Put put, boolean leaves) {
    int place = put.place();
    if (put.bytes() > 0) {
      BufferCopies by = place == space.place() ? copies : copies.ofPeers();
      by.copyAll(source, 0, target, put.offset(), put.bytes(), leaves);
    }
    sent[place]++;
    HostMemory signals = HostMemory.of(space.resources().peers().get(place));
    AtomicWords.storeRelease(signals, layout.signal(space.place()), sent[place]);
  }

  @HotPath
  private void await(OneSidedWork.Wait wait, HostRmaSender remote) {
    for (int each = 0; each < wait.awaited().size(); each++) {
      OneSidedWork.Awaited from = wait.awaited().get(each);
      int place = from.place();
      awaited[place] += from.signals();
      waiter.awaitGreater(
          own, layout.signal(place), awaited[place] - 1, space.first() + place, "a signal");
    }
    for (int each = 0; each < wait.remote().size(); each++) {
      remote.await(wait.remote().get(each));
    }
  }
}
