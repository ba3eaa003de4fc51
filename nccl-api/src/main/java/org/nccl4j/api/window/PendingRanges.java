package org.nccl4j.api.window;

import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;

/** The addresses of registered memory of which the ranks have not decided. Immutable. */
final class PendingRanges {
  private final long[] starts;

  /** The largest end of the ranges up to each: some may overlap. */
  private final long[] ends;

  PendingRanges(List<LocalRegistration> all) {
    List<DeviceMemory> memories =
        all.stream()
            .filter(LocalRegistration::isPending)
            .map(LocalRegistration::memory)
            .sorted(Comparator.comparingLong(DeviceMemory::address))
            .toList();
    starts = memories.stream().mapToLong(DeviceMemory::address).toArray();
    ends = memories.stream().mapToLong(memory -> memory.address() + memory.size()).toArray();
    Arrays.parallelPrefix(ends, Math::max);
  }

  /** True if a buffer that begins here may lie in one. */
  @HotPath
  boolean mayHold(long address) {
    int from = 0;
    int to = starts.length;
    while (from < to) { // the first that starts behind the address
      int middle = (from + to) >>> 1;
      if (starts[middle] <= address) {
        from = middle + 1;
      } else {
        to = middle;
      }
    }
    return from > 0 && address < ends[from - 1];
  }
}
