package org.nccl4j.device.host.symmetric;

import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentNavigableMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import org.nccl4j.device.Device;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.memory.MappableSegment;
import org.nccl4j.device.os.ProcFile;
import org.nccl4j.device.shm.SharedSegment;
import org.nccl4j.device.symmetric.ShareableMemory;

/** The allocations of this process that others can map, found by address. Any thread. */
public final class HostAllocations {
  /** Granularity of sizes and offsets. */
  public static final long PAGE = 4096;

  /** From here on huge pages are asked for. */
  public static final long HUGE_BYTES = 4 << 20;

  private static final long STRIDE_UNIT = 1L << 32;

  /** Addresses of the ranges of a machine's ranks, should all be of one process: half of them. */
  private static final long MOST_RESERVED = 1L << 46;

  private static final AtomicLong NEXT = new AtomicLong(1);

  private final Device device;
  private final ConcurrentNavigableMap<Long, Entry> byAddress = new ConcurrentSkipListMap<>();

  /** Entries whose memory was dropped without close. */
  private final ReferenceQueue<Allocation> dropped = new ReferenceQueue<>();

  /** None yet. */
  public HostAllocations(Device device) {
    this.device = device;
  }

  /** Twice a rank's share of this machine's memory, where a process has the addresses for that. */
  public static long stride(int team) {
    return stride(team, ProcFile.bytes(ProcFile.MEMORY, "MemTotal"));
  }

  /** Returns the stride between ranks of one machine, which all register equally much. */
  static long stride(int team, long memory) {
    long share = 2 * memory / team / STRIDE_UNIT + 1;
    long most = MOST_RESERVED / team / team / STRIDE_UNIT;
    return Math.max(1, Math.min(share, most)) * STRIDE_UNIT;
  }

  /** Does not keep memory that its user drops, which is then unmapped. */
  private static final class Entry extends WeakReference<Allocation> {
    private final long address;

    Entry(Allocation allocation, ReferenceQueue<Allocation> dropped) {
      super(allocation, dropped);
      this.address = allocation.address();
    }
  }

  /**
   * An allocation.
   *
   * @param forWindows whether it may become a window
   */
  private record Allocation(
      long number, SharedSegment segment, MappableSegment place, boolean forWindows)
      implements ShareableMemory {
    Allocation(long number, SharedSegment segment, boolean forWindows) {
      this(
          number,
          segment,
          new MappableSegment(
              number,
              segment.fd(),
              segment.address(),
              segment.size(),
              segment::discardAtEnd), // other processes may keep it mapped
          forWindows);
    }

    @Override
    public long address() {
      return segment.address();
    }

    @Override
    public long size() {
      return segment.size();
    }

    @Override
    public int exportFileDescriptor() {
      return segment.duplicateFd();
    }

    @Override
    public void release() {}
  }

  /**
   * New memory that may become a window.
   *
   * @param free runs what unmaps a closed memory, once nothing runs that could still use it
   */
  public HostMemory allocate(long bytes, Consumer<Runnable> free) {
    return allocate(bytes, free, /* forWindows= */ true);
  }

  /**
   * New memory.
   *
   * @param free as above
   * @param forWindows whether it may become a window
   */
  public HostMemory allocate(long bytes, Consumer<Runnable> free, boolean forWindows) {
    SharedSegment segment = SharedSegment.create((bytes + PAGE - 1) / PAGE * PAGE);
    Allocation allocation = new Allocation(NEXT.getAndIncrement(), segment, forWindows);
    if (bytes >= HUGE_BYTES) {
      segment.preferHugePages();
    }
    if (forWindows || bytes >= HUGE_BYTES) {
      segment.preferOwnNode(); // other ranks may write to it first
    }
    forgetDropped();
    Entry entry = new Entry(allocation, dropped);
    byAddress.put(segment.address(), entry);
    // The memory keeps this, and with it the allocation, which the entry does not keep.
    Runnable release =
        () -> {
          byAddress.remove(entry.address, entry);
          free.accept(() -> allocation.segment().close());
        };
    return new HostMemory(device, segment.address(), bytes, release, allocation.place());
  }

  /** The number of allocations. */
  public int count() {
    forgetDropped();
    return byAddress.size();
  }

  /** The allocation that may become a window and that an address lies in. */
  public Optional<ShareableMemory> find(long address) {
    return at(address).filter(Allocation::forWindows).map(allocation -> allocation);
  }

  /** The segment of the allocation that holds a range of addresses; null for none. */
  public MappableSegment segment(long address, long bytes) {
    return at(address)
        .map(Allocation::place)
        .filter(place -> place.offset(address) + bytes <= place.bytes())
        .orElse(null);
  }

  private Optional<Allocation> at(long address) {
    while (true) {
      Map.Entry<Long, Entry> found = byAddress.floorEntry(address);
      Allocation allocation = found == null ? null : found.getValue().get();
      if (found == null || allocation != null) {
        return allocation != null && address - allocation.address() < allocation.size()
            ? Optional.of(allocation)
            : Optional.empty();
      }
      byAddress.remove(found.getKey(), found.getValue());
    }
  }

  /** Removes addresses of collected allocations. Other allocations may have them now. */
  private void forgetDropped() {
    for (Object entry = dropped.poll(); entry != null; entry = dropped.poll()) {
      byAddress.remove(((Entry) entry).address, entry);
    }
  }
}
