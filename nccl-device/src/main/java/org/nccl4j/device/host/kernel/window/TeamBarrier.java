package org.nccl4j.device.host.kernel.window;

import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.symmetric.ResourceLayout;
import org.nccl4j.device.symmetric.SymmetricSpace;

/**
 * Barriers of the team, in pairs around an operation on windows. Each rank has words of its own
 * with each other rank: how often it arrived, and at what. Owned by the thread that runs the
 * communicator's current kernel.
 *
 * <p>The word that says at what is written at the first barrier of a pair only: nobody writes the
 * next one before all have passed the second, and so have read this one.
 */
public final class TeamBarrier {
  private static final long AT_WHAT = 8;

  private final SymmetricSpace space;
  private final SpinWait waiter;
  private final HostMemory own;
  private final HostMemory[] peers;
  private final long[] offsets;
  private final long mine;
  private long count;

  public TeamBarrier(SymmetricSpace space, SpinWait waiter) {
    this.space = space;
    this.waiter = waiter;
    ResourceLayout layout = new ResourceLayout(space.size());
    this.peers = new HostMemory[space.size()];
    this.offsets = new long[space.size()];
    for (int place = 0; place < space.size(); place++) {
      peers[place] = HostMemory.of(space.resources().peers().get(place));
      offsets[place] = layout.arrival(place);
    }
    this.own = peers[space.place()];
    this.mine = layout.arrival(space.place());
  }

  /**
   * The first barrier: all ranks' buffers may be used.
   *
   * @param what describes the operation and where its buffers lie
   * @param call the operation
   * @throws InvalidUsageException if another rank came for something else
   */
  @HotPath
  public void begin(long what, Call call) {
    for (int place = 0; place < peers.length; place++) {
      if (place != space.place()) {
        AtomicWords.storeOpaque(
            peers[place].window(mine + AT_WHAT), peers[place].index(mine + AT_WHAT), what);
      }
    }
    meet();
    for (int place = 0; place < peers.length; place++) {
      if (place != space.place()
          && AtomicWords.loadAcquire(own, offsets[place] + AT_WHAT) != what) {
        throw differs(space.first() + place, call);
      }
    }
  }

  private InvalidUsageException differs(int peer, Call call) {
    String known = waiter.known(peer);
    return new InvalidUsageException(
        ErrorId.CALLS_DIFFER,
        "rank %d takes part in another operation on windows than rank %d, which is in %s, or with buffers at other places of their windows%s"
            .formatted(
                peer, space.first() + space.place(), call, known.isEmpty() ? "" : "; " + known),
        "make the same calls on all ranks, with buffers at the same offsets of their windows");
  }

  /** The second barrier: all writes into this rank's buffers have arrived. */
  @HotPath
  public void end() {
    meet();
  }

  private void meet() {
    count++;
    for (int distance = 1; distance < peers.length; distance++) {
      int place = (space.place() + distance) % peers.length;
      AtomicWords.storeRelease(peers[place], mine, count);
    }
    for (int place = 0; place < peers.length; place++) {
      if (place != space.place()) {
        waiter.awaitGreater(
            own, offsets[place], count - 1, space.first() + place, "its arrival with a window");
      }
    }
  }
}
