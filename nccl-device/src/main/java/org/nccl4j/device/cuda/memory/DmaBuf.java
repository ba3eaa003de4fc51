package org.nccl4j.device.cuda.memory;

import org.nccl4j.device.CudaException;
import org.nccl4j.device.cuda.driver.DriverLibrary;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.shm.OwnedFd;

/**
 * A dma-buf of the pages of a GPU that hold some memory: a network card that is given it keeps
 * these pages, whatever is mapped at their addresses later.
 *
 * @param fd the descriptor
 * @param offset where the memory begins in it, in bytes
 */
public record DmaBuf(OwnedFd fd, long offset) implements AutoCloseable {
  /** Bytes of the largest page of the processor: the driver exports whole pages. */
  private static final long PAGE =
      System.getProperty("os.arch").equals("amd64") ? 4 << 10 : 64 << 10;

  /**
   * Exports memory that the driver has allocated or mapped.
   *
   * @throws CudaException if the driver makes no dma-buf of it, such as of memory that was created
   *     without leave for network cards
   */
  public static DmaBuf of(Gpu gpu, long address, long bytes) {
    long begin = address & -PAGE;
    long end = address + bytes + PAGE - 1 & -PAGE;
    int fd = gpu.context().get(() -> DriverLibrary.dmaBuf(begin, end - begin, gpu));
    return new DmaBuf(new OwnedFd(fd), address - begin);
  }

  @Override
  public void close() {
    fd.close();
  }
}
