package org.nccl4j.device.cuda;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.DeviceMemory;

/** Device memory that a communicator's plans keep for as long as it lives. Any thread. */
final class PlanMemory {
  private final Gpu gpu;
  private final List<DeviceMemory> all = new ArrayList<>();

  PlanMemory(Gpu gpu) {
    this.gpu = gpu;
  }

  synchronized DeviceMemory allocate(long bytes) {
    DeviceMemory allocated = CudaMemory.allocate(gpu, bytes);
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
