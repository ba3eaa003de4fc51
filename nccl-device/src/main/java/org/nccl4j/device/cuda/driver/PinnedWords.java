package org.nccl4j.device.cuda.driver;

import org.nccl4j.device.bind.NativeWords;

/**
 * Pinned memory of the host that a GPU reaches. Any thread may call; who uses the memory orders its
 * loads and stores.
 *
 * @param gpu in whose context it is freed
 * @param host its address in this process
 * @param address its address on the device
 */
public record PinnedWords(Gpu gpu, long host, long address) implements AutoCloseable {
  /** Allocates memory with zeros in it; keeps none of it if that fails. */
  public static PinnedWords allocate(Gpu gpu, long bytes) {
    return gpu.context()
        .get(
            () -> {
              long host = CudaLibrary.allocateHost(bytes, gpu);
              try {
                new NativeWords(host).clear(bytes);
                return new PinnedWords(gpu, host, CudaLibrary.hostDeviceAddress(host, gpu));
              } catch (RuntimeException e) {
                CudaLibrary.freeHost(host, gpu);
                throw e;
              }
            });
  }

  /** Frees it; nothing may use it any more. */
  @Override
  public void close() {
    gpu.context().run(() -> CudaLibrary.freeHost(host, gpu));
  }
}
