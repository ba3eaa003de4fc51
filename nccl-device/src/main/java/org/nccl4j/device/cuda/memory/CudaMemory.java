package org.nccl4j.device.cuda.memory;

import java.nio.ByteBuffer;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.cuda.driver.CudaLibrary;
import org.nccl4j.device.cuda.driver.DeferredFree;
import org.nccl4j.device.cuda.driver.Gpu;
import org.nccl4j.device.support.Patience;

/** A range of addresses that a GPU reaches. */
public final class CudaMemory extends DeviceMemory {
  private static final long POLL_NANOS = 1_000_000;

  /** Captures take less. */
  private static final long MOST_NANOS = 600_000_000_000L;

  private static final Runnable NOTHING = () -> {};

  private final Gpu gpu;
  private final long address;

  private CudaMemory(Gpu gpu, long address, long bytes, Runnable release) {
    super(bytes, new DeferredFree(gpu.launchGates(), gpu, release));
    this.gpu = gpu;
    this.address = address;
  }

  private CudaMemory(CudaMemory parent, long offset, long bytes) {
    super(parent, bytes);
    this.gpu = parent.gpu;
    this.address = parent.address + offset;
  }

  public static CudaMemory allocate(Gpu gpu, long bytes) {
    if (bytes < 0) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "memory of %d bytes is requested".formatted(bytes),
          "ask for 0 bytes or more");
    }
    if (bytes == 0) {
      return new CudaMemory(gpu, 0, 0, NOTHING);
    }
    long address = gpu.context().get(() -> CudaLibrary.allocate(bytes, gpu));
    Runnable release = () -> gpu.context().run(() -> CudaLibrary.free(address, gpu));
    CudaMemory memory = new CudaMemory(gpu, address, bytes, release);
    memory.fill((byte) 0);
    return memory;
  }

  /** Memory that other GPUs and processes can map. */
  public static CudaMemory exportable(Gpu gpu, long bytes) {
    if (bytes <= 0) {
      return allocate(gpu, bytes);
    }
    CudaShareableMemory memory = CudaShareableMemory.create(gpu, bytes);
    Runnable release = () -> DeferredFree.soon(() -> closeIdle(gpu, memory), gpu);
    return new CudaMemory(gpu, memory.local().address(), bytes, release);
  }

  /**
   * Closes memory when nothing in the context can use it any more: the driver frees memory when its
   * users have ended, but unmaps it at once.
   */
  private static void closeIdle(Gpu gpu, CudaShareableMemory memory) {
    long begin = System.nanoTime();
    while (!gpu.context().get(() -> CudaLibrary.synchronizeContext(gpu))) {
      if (System.nanoTime() - begin > MOST_NANOS) {
        throw new SystemErrorException(
            ErrorId.MEMORY,
            "%d bytes of %s are kept: streams are being captured all the time"
                .formatted(memory.size(), gpu),
            "close memory while no stream is being captured");
      }
      Patience.sleep(POLL_NANOS);
    }
    memory.close();
  }

  public static CudaMemory wrap(Gpu gpu, long address, long bytes) {
    return new CudaMemory(gpu, address, bytes, NOTHING);
  }

  /**
   * Wraps memory that something else keeps.
   *
   * @param release does nothing; objects that it refers to are kept reachable until close
   */
  public static CudaMemory wrap(Gpu gpu, long address, long bytes, Runnable release) {
    return new CudaMemory(gpu, address, bytes, release);
  }

  @Override
  public Device device() {
    return gpu.device();
  }

  @Override
  public long address() {
    return address;
  }

  /** Plans know addresses alone. */
  @Override
  public boolean isSameAs(DeviceMemory other) {
    return Arguments.notNull(other, "memory") instanceof CudaMemory same
        && same.address == address
        && same.size() == size()
        && same.gpu == gpu;
  }

  @Override
  public DeviceMemory slice(long offset, long bytes) {
    checkOpen();
    checkRange(offset, bytes);
    return new CudaMemory(this, offset, bytes);
  }

  @Override
  public void write(long offset, ByteBuffer source) {
    int bytes = Arguments.notNull(source, "buffer").remaining();
    Leases lease = lease();
    try {
      checkRange(offset, bytes);
      if (bytes > 0) {
        gpu.hostCopies().write(address + offset, source);
      }
    } finally {
      lease.end();
    }
    source.position(source.limit());
  }

  @Override
  public void read(long offset, ByteBuffer target) {
    checkWritable(Arguments.notNull(target, "buffer"));
    int bytes = target.remaining();
    Leases lease = lease();
    try {
      checkRange(offset, bytes);
      if (bytes > 0) {
        gpu.hostCopies().read(address + offset, target);
      }
    } finally {
      lease.end();
    }
    target.position(target.limit());
  }

  @Override
  public void fill(byte value) {
    Leases lease = lease();
    try {
      if (size() > 0) {
        gpu.hostCopies().fill(address, value, size());
      }
    } finally {
      lease.end();
    }
  }
}
