package org.nccl4j.device.cuda;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.DeviceMemory;

/** Device memory that a communicator's plans keep for as long as it lives. Any thread. */
final class PlanMemory {
  private final CudaDevice device;
  private final List<DeviceMemory> all = new ArrayList<>();

  PlanMemory(CudaDevice device) {
    this.device = device;
  }

  synchronized DeviceMemory allocate(long bytes) {
    DeviceMemory allocated = device.allocate(bytes);
    all.add(allocated);
    return allocated;
  }

  synchronized long bytes() {
    return all.stream().mapToLong(DeviceMemory::size).sum();
  }

  /** Frees all of it; nothing may be running. */
  synchronized void close() {
    all.forEach(DeviceMemory::close);
    all.clear();
  }
}
