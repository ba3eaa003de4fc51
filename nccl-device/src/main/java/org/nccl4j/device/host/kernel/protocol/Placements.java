package org.nccl4j.device.host.kernel.protocol;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;

/**
 * The buffers in which a kernel wants the data of the steps that come next from another host, and
 * the kernel's side of the words of {@link Placing}. Shared by the communicators that share the
 * connection; owned by the thread that runs the current kernel.
 */
final class Placements {
  private final HostMemory data;

  /** By {@link Placing#place}. Read by the proxy, in this process. */
  private final HostMemory[] buffers = new HostMemory[Placing.STEPS];

  private final long number;
  private final boolean registered;
  private final int least;

  /** Placements of a connection whose proxy has told that it places data. */
  private Placements(HostMemory data, long told) {
    this.data = data;
    registered = Placing.way(told) == Placing.REGISTERED;
    least = Placing.leastBytes(told);
    number = ExposedMemory.add(buffers);
  }

  /** The placements of a connection; null if no proxy has told that it places data. */
  static Placements of(HostMemory data) {
    long told = AtomicWords.loadAcquire(data, Placing.PLACES);
    return told == 0 ? null : new Placements(data, told);
  }

  /** Wants a step's data in a buffer, if the proxy may place them there. */
  @HotPath
  void want(long step, HostMemory target, long offset, int bytes) {
    if (takes(target, bytes)) {
      tell(step, target, offset, bytes);
    }
  }

  /** Wants a step's data in a buffer, or else tells the proxy that they go to the slot. */
  @HotPath
  void wantOrDecline(long step, HostMemory target, long offset, int bytes) {
    tell(step, takes(target, bytes) ? target : null, offset, bytes);
  }

  @HotPath
  private boolean takes(HostMemory target, int bytes) {
    return bytes >= least && (!registered || target.isRegistered());
  }

  @HotPath
  private void tell(long step, HostMemory target, long offset, int bytes) {
    buffers[Placing.place(step)] = target;
    long at = Placing.words(step);
    store(at + Placing.ADDRESS, target == null ? 0 : target.address() + offset);
    store(at + Placing.BYTES, bytes);
    store(at + Placing.BUFFERS, target == null ? Placing.DECLINED : number);
    AtomicWords.storeRelease(data, at, step + 1);
    AtomicWords.storeRelease(data, Placing.WANTED, step + 1);
  }

  private void store(long at, long word) {
    AtomicWords.storeOpaque(data.window(at), data.index(at), word);
  }

  /** True if the data of a step that has come are in the buffer in which they were wanted. */
  @HotPath
  boolean isPlaced(long step) {
    return AtomicWords.loadAcquire(data, Placing.placedWord(step)) == step + 1;
  }

  /** The buffers of a step that has come are not kept reachable any more. */
  @HotPath
  void forget(long step) {
    buffers[Placing.place(step)] = null;
  }

  void close() {
    ExposedMemory.remove(number);
  }
}
