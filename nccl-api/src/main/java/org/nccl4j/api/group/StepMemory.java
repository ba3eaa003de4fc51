package org.nccl4j.api.group;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.Leases;

/**
 * Memory between the steps of operations, which grows to the largest of them. Memory that a graph
 * may use is kept until the communicator is closed. Owner: the thread that is in the launcher;
 * {@code bytes} by any.
 */
final class StepMemory {
  private final Device device;

  /** The current one, or null. */
  private DeviceMemory memory;

  /** The current one, and those that graphs may use. */
  private final List<DeviceMemory> all = new ArrayList<>();

  private volatile long bytes;

  /** True if a graph may use the current one. */
  private boolean captured;

  /** Times that the current one has changed. */
  private int changes;

  StepMemory(Device device) {
    this.device = device;
  }

  /**
   * Returns memory of so many bytes. Smaller memory is freed, once what uses it has ended.
   *
   * @param capturing true if a graph may use the memory from now on
   */
  DeviceMemory of(long needed, boolean capturing) {
    if (memory == null || memory.size() < needed) {
      DeviceMemory grown = device.allocate(needed);
      if (memory != null && !captured) {
        Leases.closeLate(memory);
        all.remove(memory);
      }
      memory = grown;
      changes++;
      captured = false;
      all.add(grown);
      bytes = all.stream().mapToLong(DeviceMemory::size).sum();
    }
    captured |= capturing;
    return memory.slice(0, needed);
  }

  /** Notes that a graph uses the current one. */
  @HotPath
  void capture() {
    captured = true;
  }

  /** Returns another number once memory that was returned before is no longer the current one. */
  @HotPath
  int changes() {
    return changes;
  }

  /** Frees all of it, once what uses it has ended. */
  void close() {
    all.forEach(DeviceMemory::close);
    all.clear();
    memory = null;
    changes++;
    captured = false;
    bytes = 0;
  }

  /** Returns the bytes of all of it. */
  long bytes() {
    return bytes;
  }
}
