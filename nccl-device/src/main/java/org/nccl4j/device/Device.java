package org.nccl4j.device;

import java.nio.ByteBuffer;
import java.util.Optional;

/**
 * A CUDA GPU or the host: has memory, and executes operations on it in streams.
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
   * Allocates zeroed memory on this device. If a GPU does not have enough, waits up to 10 s until
   * memory is free that was closed before, and tries once more; as {@link #memAlloc} does.
   *
   * @param bytes how many, at least 0
   * @throws InvalidArgumentException if bytes is negative
   * @throws SystemErrorException or {@link CudaException} if there is not enough
   */
  public abstract DeviceMemory allocate(long bytes);

  /**
   * Allocates zeroed memory on this device that other ranks can map, as windows need. Corresponds
   * to ncclMemAlloc; closing it to ncclMemFree.
   *
   * @param bytes how many, at least 0
   * @throws InvalidArgumentException if bytes is negative
   * @throws SystemErrorException or {@link CudaException} if there is not enough
   */
  public abstract DeviceMemory memAlloc(long bytes);

  /**
   * Wraps memory that other code allocated and frees: of another library, or of a {@code
   * MemorySegment} (its address() and byteSize()). It must live until the last operation on it has
   * ended; closing the result does not free it. Buffers that operations write to must be writable.
   *
   * @param address of the first byte
   * @param bytes size of the usable memory
   * @throws InvalidArgumentException if bytes is negative, or if, of one byte or more, the address
   *     is 0 or the first byte is memory that this device cannot read; a GPU also checks the last
   *     byte
   */
  public abstract DeviceMemory wrap(long address, long bytes);

  /**
   * Wraps the bytes of a direct buffer, from its position to its limit; the result keeps the buffer
   * reachable. A GPU accepts buffers of memory that CUDA has pinned (cuMemHostAlloc,
   * cuMemHostRegister).
   *
   * @throws InvalidArgumentException for a heap buffer, which has no fixed address, for a read-only
   *     one, and on a GPU for memory that is not pinned
   */
  public abstract DeviceMemory wrap(ByteBuffer direct);

  /** Throws unless a range of addresses can be memory. */
  protected static void checkRange(long address, long bytes, String remedy) {
    if (bytes < 0 || bytes > 0 && (address <= 0 || address + bytes < 0)) {
      throw notWrapped(address, bytes, "", remedy);
    }
  }

  /** Throws for a heap buffer or a read-only one. */
  protected static void checkDirect(ByteBuffer buffer) {
    if (!Arguments.notNull(buffer, "buffer").isDirect()) {
      throw new InvalidArgumentException(
          ErrorId.BUFFER,
          "a heap buffer of %d bytes cannot be wrapped".formatted(buffer.remaining()),
          "use ByteBuffer.allocateDirect, or allocate memory and write the buffer to it");
    }
    if (buffer.isReadOnly()) {
      throw new InvalidArgumentException(
          ErrorId.BUFFER,
          "a read-only buffer of %d bytes cannot be wrapped, since operations write to memory"
              .formatted(buffer.remaining()),
          "pass a buffer that may be written to (map a file as READ_WRITE or PRIVATE), or allocate"
              + " memory and write the buffer to it");
    }
  }

  /**
   * The error of memory that is not the device's.
   *
   * @param why a clause that begins with a colon, or nothing
   */
  protected static InvalidArgumentException notWrapped(
      long address, long bytes, String why, String remedy) {
    return new InvalidArgumentException(
        ErrorId.BUFFER,
        "%d bytes at address 0x%x cannot be wrapped%s".formatted(bytes, address, why),
        remedy);
  }

  /**
   * The driver's objection to memory as a buffer of operations, such as a host address instead of a
   * device address. It calls the driver, so use it to find mistakes (NCCL_CHECK_POINTERS=1).
   *
   * @param memory of this device
   * @return a clause that begins with "the"; empty without an objection
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
