package org.nccl4j.device.cuda.plan;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.memory.CudaMemory;
import org.nccl4j.device.support.CloseAll;

/** Device memory that a communicator's plans keep for as long as it lives. Any thread. */
public final class PlanMemory {
  private final Gpu gpu;
  private final List<DeviceMemory> all = new ArrayList<>();

  public PlanMemory(Gpu gpu) {
    this.gpu = gpu;
  }

  synchronized DeviceMemory allocate(long bytes) {
    DeviceMemory allocated = CudaMemory.allocate(gpu, bytes);
    all.add(allocated);
    return allocated;
  }

  public synchronized long bytes() {
    return all.stream().mapToLong(DeviceMemory::size).sum();
  }

  /** Frees all of it; nothing may be running. */
  public synchronized void close() {
    CloseAll closing = new CloseAll();
    all.forEach(memory -> closing.take(memory::close));
    all.clear();
    closing.end();
  }
}
