package org.nccl4j.device.cuda.driver;

import java.nio.ByteBuffer;
import org.nccl4j.device.bind.Offheap;

/**
 * Fills a device's memory, and copies between it and the host, at once. It has a stream of its own
 * for that, of the process's life: the driver's default stream would wait for all that the user has
 * in streams that are not {@code NON_BLOCKING}, collectives too, and may not be used at all while
 * one of them is being captured. Any thread.
 */
public final class HostCopies {
  /** Most bytes of a buffer in the heap that are copied at a time. */
  private static final int STAGED = 4 << 20;

  private final Gpu gpu;
  private long stream; // 0 before the first use

  HostCopies(Gpu gpu) {
    this.gpu = gpu;
  }

  /** The CUstream; of the highest priority, so that it shares no queue with others' waits. */
  public synchronized long stream() {
    if (stream == 0) {
      stream = gpu.context().get(() -> CudaLibrary.createUrgentStream(gpu));
    }
    return stream;
  }

  /** Sets all bytes of a range. */
  public void fill(long address, byte value, long bytes) {
    long into = stream();
    run(() -> CudaLibrary.fillAsync(address, value, bytes, into, gpu));
  }

  /** Copies what remains of a buffer, which it leaves as it is. */
  public void write(long target, ByteBuffer source) {
    if (source.isDirect()) {
      write(target, Offheap.address(source), source.remaining());
      return;
    }
    int bytes = source.remaining();
    Offheap staged = new Offheap(Math.min(bytes, STAGED));
    for (int at = 0; at < bytes; at += STAGED) {
      int part = Math.min(bytes - at, STAGED);
      staged.bytes().put(0, source, source.position() + at, part);
      write(target + at, staged.address(), part);
    }
  }

  private void write(long target, long source, long bytes) {
    long into = stream();
    run(() -> CudaLibrary.copyToDevice(target, source, bytes, into, gpu));
  }

  /** Copies within memory that the device reaches, pinned memory too. */
  public void move(long target, long source, long bytes) {
    long into = stream();
    run(() -> DriverLibrary.copyAsync(target, source, bytes, into, gpu));
  }

  /** Fills what remains of a buffer, which it leaves as it is. */
  public void read(long source, ByteBuffer target) {
    if (target.isDirect()) {
      read(source, Offheap.address(target), target.remaining());
      return;
    }
    int bytes = target.remaining();
    Offheap staged = new Offheap(Math.min(bytes, STAGED));
    for (int at = 0; at < bytes; at += STAGED) {
      int part = Math.min(bytes - at, STAGED);
      read(source + at, staged.address(), part);
      target.put(target.position() + at, staged.bytes(), 0, part);
    }
  }

  private void read(long source, long target, long bytes) {
    long into = stream();
    run(() -> CudaLibrary.copyToHost(target, source, bytes, into, gpu));
  }

  private void run(Runnable operation) {
    gpu.context()
        .run(
            () -> {
              operation.run();
              CudaLibrary.synchronizeStream(stream(), gpu);
            });
  }
}
