package org.nccl4j.device.host;

import java.time.Duration;
import java.util.List;
import java.util.function.BooleanSupplier;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.stream.Backoff;
import org.nccl4j.device.support.Patience;

/**
 * A barrier among ranks that share memory of the host: each has words of its own with each other. A
 * barrier among ranks: writes before it are seen by all ranks that have waited. One thread a rank.
 */
public final class HostBarrier {
  private static final long STRIDE = 128;

  private final List<HostMemory> peers;
  private final int place;
  private final long offset;
  private long epoch;

  /**
   * A barrier.
   *
   * @param peers memory of each rank, by place, zero when new
   * @param place this rank's
   * @param offset where its words begin: 128 bytes for each rank
   */
  public HostBarrier(List<DeviceMemory> peers, int place, long offset) {
    this.peers = peers.stream().map(HostMemory::of).toList();
    this.place = place;
    this.offset = offset;
  }

  /**
   * Waits until all have come.
   *
   * @param over asked now and then; true if the wait is in vain
   * @return false if one has not come in time, or the wait is over: then it is of no further use
   */
  public boolean await(Duration patience, BooleanSupplier over) {
    epoch++;
    for (HostMemory peer : peers) {
      AtomicWords.storeRelease(peer, offset + place * STRIDE, epoch);
    }
    long endNanos = Patience.end(patience);
    Backoff backoff = new Backoff(Backoff.SPINS);
    for (int other = 0; other < peers.size(); other++) {
      while (AtomicWords.loadAcquire(peers.get(place), offset + other * STRIDE) < epoch) {
        backoff.idle();
        if (over.getAsBoolean() || backoff.isSlow() && System.nanoTime() - endNanos > 0) {
          return false;
        }
      }
    }
    return true;
  }
}
