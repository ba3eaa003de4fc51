package org.nccl4j.device.host;

import java.util.List;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.host.memory.AtomicWords;
import org.nccl4j.device.host.memory.HostMemory;

/**
 * Counters in memory that ranks share: any rank raises any rank's, and each looks at its own. Any
 * thread.
 */
public final class HostSignals {
  private final List<HostMemory> peers;
  private final int place;
  private final long offset;

  /**
   * Counters.
   *
   * @param peers memory of each rank, by place, zero when new
   * @param place this rank's
   * @param offset of the first in each memory: 8 bytes for each
   */
  public HostSignals(List<DeviceMemory> peers, int place, long offset) {
    this.peers = peers.stream().map(HostMemory::of).toList();
    this.place = place;
    this.offset = offset;
  }

  /** Raises a rank's counter by one, and publishes what this thread wrote before. */
  public void raise(int of, int index) {
    AtomicWords.addRelease(peers.get(of), offset + 8L * index, 1);
  }

  /** Returns this rank's counter; what was written before it was raised is seen. */
  public long value(int index) {
    return AtomicWords.loadAcquire(peers.get(place), offset + 8L * index);
  }
}
