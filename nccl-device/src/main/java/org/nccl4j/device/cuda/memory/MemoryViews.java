package org.nccl4j.device.cuda.memory;

import java.util.HashSet;
import java.util.Set;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.cuda.driver.Gpu;

/** The addresses of a shared memory, the same for all devices of a process. Any thread may call. */
final class MemoryViews {
  private final Gpu gpu;
  private final long address;
  private final long size;
  private final Set<Integer> allowed = new HashSet<>();

  /** Memory that its own (or the importing) device sees. */
  MemoryViews(Gpu gpu, long address, long size) {
    this.gpu = gpu;
    this.address = address;
    this.size = size;
    allowed.add(gpu.index());
  }

  /** Returns the view of the owning device. */
  DeviceMemory local() {
    return CudaMemory.wrap(gpu, address, size);
  }

  /**
   * Another device's.
   *
   * @param letIn gives the device access; called at most once for each
   */
  synchronized DeviceMemory from(Gpu peer, Runnable letIn) {
    if (!allowed.contains(peer.index())) {
      letIn.run();
      allowed.add(peer.index());
    }
    return CudaMemory.wrap(peer, address, size);
  }
}
