package org.nccl4j.device.cuda.memory;

import org.nccl4j.device.CudaException;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;

/**
 * Dma-bufs of the pages of a GPU that hold some memory. A network card that is given one keeps
 * these pages, whatever is mapped at their addresses later.
 */
public final class DmaBuf {
  /** Bytes of the largest page of the processor: the driver exports whole pages. */
  private static final long PAGE =
      System.getProperty("os.arch").equals("amd64") ? 4 << 10 : 64 << 10;

  private DmaBuf() {}

  /**
   * Exports memory that the driver has allocated or mapped.
   *
   * @return the descriptor, which the caller closes
   * @throws CudaException if the driver makes no dma-buf of it, such as of memory that was created
   *     without leave for network cards
   */
  public static int of(Gpu gpu, long address, long bytes) {
    long begin = address - offset(address);
    long end = address + bytes + PAGE - 1 & -PAGE;
    return gpu.context().get(() -> DriverLibrary.dmaBuf(begin, end - begin, gpu));
  }

  /** Returns where memory begins in its dma-buf, in bytes. */
  public static long offset(long address) {
    return address & PAGE - 1;
  }
}
