package org.nccl4j.device;

import java.util.Optional;

/**
 * Something that has memory and executes operations on it in streams: a CUDA GPU, or the host.
 *
 * <p>Any thread may call any method.
 */
public abstract class Device {
  /** The two kinds of device. */
  public enum Kind {
    /** This machine's processor and memory. */
    HOST,
    /** An NVIDIA GPU. */
    CUDA
  }

  /** Creates a device; only implementations in this module do. */
  protected Device() {}

  /** The kind: the host or a GPU. */
  public abstract Kind kind();

  /** The CUDA device number; on the host 0. */
  public abstract int index();

  /** Makes this device current on the calling thread, which may save driver calls. */
  public void useOnThisThread() {}

  /** The readable name, such as "NVIDIA H200". */
  public abstract String name();

  /**
   * New memory, zeroed, on this device.
   *
   * @param bytes how many, at least 0
   * @throws InvalidArgumentException if bytes is negative
   * @throws SystemErrorException or {@link CudaException} if there is not enough
   */
  public abstract DeviceMemory allocate(long bytes);

  /**
   * New memory, zeroed, on this device, that other ranks can map: what {@link #allocate} gives, but
   * fit for windows. As ncclMemAlloc; closing it is ncclMemFree.
   *
   * @param bytes how many, at least 0
   * @throws InvalidArgumentException if bytes is negative
   * @throws SystemErrorException or {@link CudaException} if there is not enough
   */
  public abstract DeviceMemory memAlloc(long bytes);

  /**
   * Memory that somebody else allocated and frees, which must not happen before the last operation
   * on it has ended.
   *
   * @param address where it begins
   * @param bytes how much of it may be used
   * @throws InvalidArgumentException if the address is 0 while bytes is not, or bytes is negative
   */
  public abstract DeviceMemory wrap(long address, long bytes);

  /**
   * The driver's objection to memory as a buffer of operations, such as a host address instead of a
   * device address. It calls the driver, so use it to find mistakes (NCCL_CHECK_POINTERS=1).
   *
   * @param memory of this device
   * @return a clause that begins with "the"; empty if nothing is known against it
   */
  public Optional<String> objection(DeviceMemory memory) {
    Arguments.notNull(memory, "memory");
    return Optional.empty();
  }

  /** A new stream: operations launched into it run one after the other, in order of launch. */
  public abstract DeviceStream createStream();

  /** A new event, not yet recorded. */
  public abstract DeviceEvent createEvent();
}
