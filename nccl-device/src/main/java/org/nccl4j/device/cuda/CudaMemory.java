package org.nccl4j.device.cuda;

import java.nio.ByteBuffer;
import jcuda.Pointer;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.Given;
import org.nccl4j.device.InvalidArgumentException;

/** A range of addresses that a GPU reaches. */
final class CudaMemory extends DeviceMemory {
  private final CudaDevice device;
  private final long address;
  private final CudaMemory parent; // of a slice, else null
  private final Runnable release; // of an owner, else null
  private volatile boolean closed;

  private CudaMemory(
      CudaDevice device, long address, long bytes, CudaMemory parent, Runnable release) {
    super(bytes);
    this.device = device;
    this.address = address;
    this.parent = parent;
    this.release = release;
  }

  static CudaMemory allocate(CudaDevice device, long bytes) {
    if (bytes < 0) {
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "a memory of %d bytes is asked for".formatted(bytes),
          "ask for 0 bytes or more");
    }
    if (bytes == 0) {
      return new CudaMemory(device, 0, 0, null, null);
    }
    long address = device.context().get(() -> JCudaLibrary.allocate(bytes, device));
    Runnable release = () -> device.context().run(() -> JCudaLibrary.free(address, device));
    CudaMemory memory = new CudaMemory(device, address, bytes, null, release);
    memory.fill((byte) 0);
    return memory;
  }

  /** Memory that other GPUs and processes can map. */
  static CudaMemory exportable(CudaDevice device, long bytes) {
    if (bytes <= 0) {
      return allocate(device, bytes);
    }
    CudaShareableMemory memory = CudaShareableMemory.create(device, bytes);
    return new CudaMemory(device, memory.local().address(), bytes, null, memory::close);
  }

  static CudaMemory wrap(CudaDevice device, long address, long bytes) {
    return new CudaMemory(device, address, bytes, null, null);
  }

  @Override
  public CudaDevice device() {
    return device;
  }

  @Override
  public long address() {
    return address;
  }

  @Override
  public boolean isOpen() {
    return !closed && (parent == null || parent.isOpen());
  }

  /** Plans know addresses alone. */
  @Override
  public boolean isSameAs(DeviceMemory other) {
    return other instanceof CudaMemory same
        && same.address == address
        && same.size() == size()
        && same.device == device;
  }

  @Override
  public DeviceMemory slice(long offset, long bytes) {
    checkOpen();
    checkRange(offset, bytes);
    return new CudaMemory(device, address + offset, bytes, this, null);
  }

  @Override
  public void write(long offset, ByteBuffer source) {
    checkOpen();
    int bytes = Given.notNull(source, "buffer").remaining();
    checkRange(offset, bytes);
    if (bytes > 0) {
      Pointer from = Pointer.toBuffer(source);
      device.context().run(() -> JCudaLibrary.copyToDevice(address + offset, from, bytes, device));
    }
    source.position(source.limit());
  }

  @Override
  public void read(long offset, ByteBuffer target) {
    checkOpen();
    int bytes = Given.notNull(target, "buffer").remaining();
    checkRange(offset, bytes);
    if (bytes > 0) {
      Pointer to = Pointer.toBuffer(target);
      device.context().run(() -> JCudaLibrary.copyToHost(to, address + offset, bytes, device));
    }
    target.position(target.limit());
  }

  @Override
  public void fill(byte value) {
    checkOpen();
    if (size() > 0) {
      device
          .context()
          .run(
              () -> {
                JCudaLibrary.fillAsync(address, value, size(), null, device);
                JCudaLibrary.synchronizeStream(null, device);
              });
    }
  }

  @Override
  public synchronized void close() {
    if (!closed) {
      closed = true;
      if (release != null) {
        release.run();
      }
    }
  }
}
