package org.nccl4j.api.window;

import java.util.function.Supplier;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.NcclException;

/**
 * Memory of kernels, zeros at first: a window that the kernels of all ranks write into, and memory
 * of this rank alone.
 *
 * @param windows of this rank
 * @param window that all ranks have
 * @param shared this rank's memory of the window
 * @param own of this rank alone
 */
public record KernelMemory(
    WindowRegistry windows, RegisteredWindow window, DeviceMemory shared, DeviceMemory own)
    implements AutoCloseable {

  /** Bytes of both memories. */
  public record Bytes(long shared, long own) {}

  /**
   * Makes both together with all other ranks, or none on any.
   *
   * @param asked requirements of a device communicator, the same on all ranks; null for others
   * @param bytes of this rank; if it throws an NcclException, that is reported to all ranks
   * @throws NcclException on all ranks, if one of them has an error, lacks memory or cannot map
   *     another's
   */
  public static KernelMemory make(
      WindowRegistry windows, DeviceCommRequirements asked, Supplier<Bytes> bytes) {
    DeviceMemory shared = null;
    DeviceMemory own = null;
    NcclException lack = null;
    try {
      Bytes its = bytes.get();
      Device device = windows.device();
      shared = device.memAlloc(its.shared);
      shared.fill((byte) 0);
      own = device.allocate(its.own);
      own.fill((byte) 0);
    } catch (NcclException e) {
      lack = e;
    }
    try {
      return new KernelMemory(
          windows, windows.registerForKernels(asked, shared, lack), shared, own);
    } catch (RuntimeException e) {
      if (shared != null) {
        shared.close();
      }
      if (own != null) {
        own.close();
      }
      throw e;
    }
  }

  /** Frees it on this rank alone, as {@link WindowRegistry#releaseForKernels}. */
  @Override
  public void close() {
    windows.releaseForKernels(window, shared);
    own.close();
  }
}
