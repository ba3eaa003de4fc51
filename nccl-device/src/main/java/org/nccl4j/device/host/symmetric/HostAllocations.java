package org.nccl4j.device.host.symmetric;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentNavigableMap;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.nccl4j.device.Device;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.shm.SharedSegment;
import org.nccl4j.device.symmetric.Exportable;

/** The allocations of this process that others can map, found by address. Any thread. */
public final class HostAllocations {
  /** What sizes and offsets are multiples of. */
  public static final long PAGE = 4096;

  private static final long STRIDE_UNIT = 1L << 32;
  private static final long LEAST_STRIDE = 16 * STRIDE_UNIT;

  private static final AtomicLong NEXT = new AtomicLong(1);

  private final Device device;
  private final ConcurrentNavigableMap<Long, Allocation> byAddress = new ConcurrentSkipListMap<>();

  /** None yet. */
  public HostAllocations(Device device) {
    this.device = device;
  }

  /** More than the memory of this machine. */
  public static long stride() {
    try (Stream<String> lines = Files.lines(Path.of("/proc/meminfo"))) {
      long kibibytes =
          lines
              .filter(line -> line.startsWith("MemTotal:"))
              .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", "")))
              .findFirst()
              .orElse(0);
      return Math.max(LEAST_STRIDE, (kibibytes * 1024 / STRIDE_UNIT + 1) * STRIDE_UNIT);
    } catch (IOException | NumberFormatException e) {
      return LEAST_STRIDE;
    }
  }

  private record Allocation(long number, SharedSegment segment) implements Exportable {
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
   * New memory.
   *
   * @param free runs what unmaps a closed memory, once nothing runs that could still use it
   */
  public HostMemory allocate(long bytes, Consumer<Runnable> free) {
    SharedSegment segment = SharedSegment.create((bytes + PAGE - 1) / PAGE * PAGE);
    Allocation allocation = new Allocation(NEXT.getAndIncrement(), segment);
    byAddress.put(segment.address(), allocation);
    Runnable release =
        () -> {
          byAddress.remove(allocation.address());
          free.accept(allocation.segment().detach());
        };
    return new HostMemory(device, segment.address(), bytes, release);
  }

  /** The allocation that an address lies in. */
  public Optional<Exportable> find(long address) {
    Map.Entry<Long, Allocation> entry = byAddress.floorEntry(address);
    return entry != null && address - entry.getKey() < entry.getValue().size()
        ? Optional.of(entry.getValue())
        : Optional.empty();
  }
}
