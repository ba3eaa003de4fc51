package org.nccl4j.device.cuda.plan;

import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.cuda.driver.OffheapPool;
import org.nccl4j.device.cuda.module.KernelModules;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;

/**
 * A communicator as its plans know it. Plans with the same context are of the same communicator.
 *
 * @param kernels the GPU's
 * @param memory what kernels read and keep
 * @param planMemory device memory of plans that lives as long as the communicator
 * @param tables of plans that do not fit their kernels' arguments
 * @param offheap blocks outside the heap for plans; of the thread that prepares
 * @param last the kernel that was launched last
 */
public record PlanContext(
    Gpu gpu,
    KernelModules kernels,
    KernelCommunicatorSpec spec,
    CommunicatorMemory memory,
    PlanMemory planMemory,
    PlanTables tables,
    OffheapPool offheap,
    CudaKernelPlan.Last last) {
  /** Blocks of a cluster that the user asked for, or 0. */
  int clusterBlocks() {
    return spec.launching().clusterBlocks();
  }

  /** True if a stream that waits for another rank would hold up all others. */
  public boolean hasOneQueue() {
    return spec.launching().oneQueue();
  }

  /** The communicator's name and GPU. */
  @Override
  public String toString() {
    return spec.name() + " on " + gpu;
  }
}
