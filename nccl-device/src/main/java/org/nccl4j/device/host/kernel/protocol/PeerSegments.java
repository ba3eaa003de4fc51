package org.nccl4j.device.host.kernel.protocol;

import org.nccl4j.device.Device;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.os.OtherProcess;
import org.nccl4j.device.shm.MappedRegion;
import org.nccl4j.device.shm.SharedSegment;

/**
 * The segments of another process that are mapped here, each since its data were first exposed. The
 * owner gives a segment's pages back when it closes or drops the memory, so a mapping that is no
 * longer used costs only addresses. Owned by the thread that runs the current kernel.
 */
final class PeerSegments {
  /** Segments that are mapped at once; a further one replaces the one that was mapped first. */
  static final int MOST = 32;

  private final long process;
  private final Device device;
  private final long[] numbers = new long[MOST];
  private final MappedRegion[] regions = new MappedRegion[MOST];
  private final HostMemory[] memories = new HostMemory[MOST];

  /** The place of the segment that was found last. */
  private int last;

  /** The place that the next segment takes. */
  private int next;

  /** None yet, of a process. */
  PeerSegments(long process, Device device) {
    this.process = process;
    this.device = device;
  }

  /** The mapping of a segment, by its number; null if it is not mapped. */
  @HotPath
  HostMemory find(long number) {
    if (numbers[last] == number) {
      return memories[last];
    }
    for (int place = 0; place < MOST; place++) {
      if (numbers[place] == number) {
        last = place;
        return memories[place];
      }
    }
    return null;
  }

  /**
   * Maps a segment. That which was found last stays mapped: a step may expose two.
   *
   * @throws SystemErrorException if that does not work
   */
  HostMemory map(long number, int descriptor, long bytes) {
    MappedRegion region = SharedSegment.attachOf(process, descriptor, bytes);
    if (next == last && memories[last] != null) {
      next = (next + 1) % MOST;
    }
    unmap(next);
    regions[next] = region;
    memories[next] = new HostMemory(device, region.address(), bytes, region::close);
    numbers[next] = number;
    last = next;
    next = (next + 1) % MOST;
    return memories[last];
  }

  /** False if the process has ended. */
  boolean ownerLives() {
    return !OtherProcess.hasEnded(process);
  }

  /** Unmaps all. */
  void close() {
    for (int place = 0; place < MOST; place++) {
      unmap(place);
    }
  }

  private void unmap(int place) {
    if (memories[place] != null) {
      numbers[place] = 0;
      memories[place] = null;
      regions[place].close();
      regions[place] = null;
    }
  }
}
