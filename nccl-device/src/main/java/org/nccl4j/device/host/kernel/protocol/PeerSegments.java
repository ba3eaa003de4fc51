package org.nccl4j.device.host.kernel.protocol;

import java.util.Arrays;
import java.util.concurrent.atomic.AtomicInteger;
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
  /** Places at first. */
  private static final int FEWEST = 32;

  /**
   * Segments that are mapped at once, as many as another process shares; a further one replaces the
   * one that was mapped first. A program that uses more buffers in turn than are mapped pays for a
   * mapping and its page faults at each operation.
   */
  static final int MOST = 256;

  /** Mappings of all connections from which on none gets more places; Linux allows 65,530. */
  private static final int MOST_OF_PROCESS = 16_384;

  private static final AtomicInteger MAPPED = new AtomicInteger();

  private final long process;
  private final Device device;
  private long[] numbers = new long[FEWEST];
  private MappedRegion[] regions = new MappedRegion[FEWEST];
  private HostMemory[] memories = new HostMemory[FEWEST];

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
    // Programs often use their buffers in the order of the time before.
    for (int behind = 1, n = numbers.length; behind < n; behind++) {
      int place = last + behind & n - 1;
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
    if (memories[next] != null && next == 0) {
      grow();
    }
    if (next == last && memories[last] != null) {
      next = (next + 1) % numbers.length;
    }
    unmap(next);
    MAPPED.incrementAndGet();
    regions[next] = region;
    memories[next] = new HostMemory(device, region.address(), bytes, region::close);
    numbers[next] = number;
    last = next;
    next = (next + 1) % numbers.length;
    return memories[last];
  }

  /**
   * Makes twice the places, if that is not too many; all are taken, and the next would be the
   * first.
   */
  private void grow() {
    int n = numbers.length;
    if (n < MOST && MAPPED.get() < MOST_OF_PROCESS) {
      numbers = Arrays.copyOf(numbers, 2 * n);
      regions = Arrays.copyOf(regions, 2 * n);
      memories = Arrays.copyOf(memories, 2 * n);
      next = n;
    }
  }

  /** False if the process has ended. */
  boolean ownerLives() {
    return !OtherProcess.hasEnded(process);
  }

  /** Unmaps all. */
  void close() {
    for (int place = 0; place < numbers.length; place++) {
      unmap(place);
    }
  }

  private void unmap(int place) {
    if (memories[place] != null) {
      numbers[place] = 0;
      memories[place] = null;
      regions[place].close();
      regions[place] = null;
      MAPPED.decrementAndGet();
    }
  }
}
