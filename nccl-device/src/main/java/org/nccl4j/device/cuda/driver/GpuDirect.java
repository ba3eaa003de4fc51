package org.nccl4j.device.cuda.driver;

import org.nccl4j.device.CudaException;

/**
 * A GPU's support for network cards that read and write its memory (GPUDirect RDMA), and for words
 * that host and GPU share.
 *
 * @param absence why it offers nothing; empty where it does
 * @param slotAbsence why slots of connections cannot lie in its memory, behind words that it shares
 *     with the host; empty where they can
 * @param peerMemory whether by addresses, which a module of the kernel (nvidia_peermem) resolves
 * @param dmaBufs whether by dma-buf file descriptors
 */
public record GpuDirect(String absence, String slotAbsence, boolean peerMemory, boolean dmaBufs) {
  private static final int VIRTUAL_MEMORY = 102; // ..._VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED
  private static final int WITH_VIRTUAL_MEMORY = 110; // ..._GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED
  private static final int PEER_MEMORY = 116; // ..._GPU_DIRECT_RDMA_SUPPORTED
  private static final int DMA_BUF = 124; // ..._DMA_BUF_SUPPORTED
  private static final int HOST_NUMA = 141; // ..._HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED

  /** Asks the driver. */
  public static GpuDirect of(Gpu gpu) {
    boolean peerMemory = has(gpu, PEER_MEMORY);
    boolean dmaBufs = has(gpu, DMA_BUF);
    if (!peerMemory && !dmaBufs) {
      return none(gpu + " lets no NIC access its memory, neither by address nor by dma-buf");
    }
    if (!has(gpu, VIRTUAL_MEMORY) || !has(gpu, WITH_VIRTUAL_MEMORY)) {
      return none(gpu + " lets no NIC access memory of virtual memory management");
    }
    String noSlots =
        has(gpu, HOST_NUMA)
            ? ""
            : "the driver of %s cannot map host memory beside the GPU's, which needs CUDA 12.2"
                .formatted(gpu);
    return new GpuDirect("", noSlots, peerMemory, dmaBufs);
  }

  private static GpuDirect none(String why) {
    return new GpuDirect(why, why, false, false);
  }

  /** Older drivers do not know newer attributes. */
  private static boolean has(Gpu gpu, int attribute) {
    try {
      return gpu.attribute(attribute) != 0;
    } catch (CudaException e) {
      return false;
    }
  }
}
