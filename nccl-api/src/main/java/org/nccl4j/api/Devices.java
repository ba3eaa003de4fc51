package org.nccl4j.api;

import java.nio.ByteBuffer;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.cuda.CudaDevices;
import org.nccl4j.device.host.HostDevice;

/** The devices of this machine. */
public final class Devices {
  private Devices() {}

  /** The host device: the processor and its memory. It always exists. */
  public static Device host() {
    return HostDevice.instance();
  }

  /**
   * The GPUs of this process, or the reason why there are none. Makes no CUDA context: that happens
   * when a GPU is first used.
   */
  public static CudaDevices cuda() {
    return CudaDevices.probe();
  }

  /**
   * Wraps the bytes of a direct buffer, from its position to its limit, as memory of the host.
   *
   * @throws org.nccl4j.device.InvalidArgumentException for a heap buffer or a read-only one
   */
  public static DeviceMemory wrap(ByteBuffer direct) {
    return HostDevice.instance().wrap(direct);
  }

  /**
   * Wraps memory of this process that other code allocated and frees: of another library, or of a
   * {@code MemorySegment} (its address() and byteSize()). It must live until the last operation on
   * it has ended. {@link CudaDevices#device}{@code (n).wrap} wraps memory of a GPU.
   *
   * @throws org.nccl4j.device.InvalidArgumentException if bytes is negative, or if, of one byte or
   *     more, the address is 0 or the first or the last byte cannot be read
   */
  public static DeviceMemory wrap(long address, long bytes) {
    return HostDevice.instance().wrap(address, bytes);
  }

  /**
   * A part of host memory as a direct buffer in the processor's byte order. It shares the memory's
   * bytes, and must not be used after the memory is closed; it keeps memory that is not closed.
   *
   * @param bytes at most {@code Integer.MAX_VALUE - 8}
   * @throws org.nccl4j.device.InvalidArgumentException if the part is not inside the memory, or too
   *     large for a buffer
   * @throws org.nccl4j.device.InvalidUsageException for memory of a GPU
   */
  public static ByteBuffer view(DeviceMemory memory, long offset, int bytes) {
    return HostDevice.view(Arguments.notNull(memory, "memory"), offset, bytes);
  }
}
