package org.nccl4j.device;

import java.nio.ByteBuffer;

/**
 * A range of a device's memory.
 *
 * <p>Any thread may call any method. If two threads or streams write the same bytes at once, the
 * result is one of the two. Freed by {@link #close()}: slices of it are then closed too.
 */
public abstract class DeviceMemory implements AutoCloseable {
  private final long size;
  private final DeviceMemory parent; // of a slice, else null
  private final Leases leases;
  private volatile boolean closed; // a slice

  /**
   * Memory that is not a slice, for the implementations in this module.
   *
   * @param leases free it
   */
  protected DeviceMemory(long size, Leases leases) {
    this.size = size;
    this.parent = null;
    this.leases = leases;
  }

  /** A slice, for the implementations in this module. */
  protected DeviceMemory(DeviceMemory parent, long size) {
    this.size = size;
    this.parent = parent;
    this.leases = parent.leases;
  }

  final Leases leases() {
    return leases;
  }

  /** The device that it belongs to. */
  public abstract Device device();

  /** The address of its first byte, on its device. */
  public abstract long address();

  /** Bytes. */
  public final long size() {
    return size;
  }

  /** True until the memory, or the memory of which it is a slice, is closed. */
  @HotPath
  public final boolean isOpen() {
    return parent == null ? leases.isOpen() : !closed && parent.isOpen();
  }

  /**
   * True if an operation that was prepared for this memory also fits the other one: both are the
   * same bytes of the same allocation. Slices that are created for each call are the same.
   */
  public boolean isSameAs(DeviceMemory other) {
    return Arguments.notNull(other, "memory") == this;
  }

  /**
   * A part of it, sharing its bytes.
   *
   * @param offset of the part, in bytes
   * @param bytes size of the part
   * @throws InvalidArgumentException if the part is not inside this memory
   * @throws InvalidUsageException after close
   */
  public abstract DeviceMemory slice(long offset, long bytes);

  /**
   * Copies the remaining bytes of a buffer into this memory before it returns. Does not wait for
   * streams.
   *
   * @param offset the first byte written
   * @param source heap or direct; its position advances to its limit
   * @throws InvalidArgumentException if they do not fit
   * @throws InvalidUsageException after close
   */
  public abstract void write(long offset, ByteBuffer source);

  /**
   * Fills the remaining bytes of a buffer from this memory before it returns. Does not wait for
   * streams.
   *
   * @param offset the first byte read
   * @param target heap or direct; its position advances to its limit
   * @throws InvalidArgumentException if the memory has fewer bytes, or for a read-only buffer
   * @throws InvalidUsageException after close
   */
  public abstract void read(long offset, ByteBuffer target);

  /**
   * Sets every byte before it returns. Does not wait for streams.
   *
   * @throws InvalidUsageException after close
   */
  public abstract void fill(byte value);

  /**
   * Frees the memory after all operations that were called with it before, including those of an
   * open group, and after reads, writes and fills of other threads. A slice or a wrapped range only
   * becomes unusable. Calling it again does nothing.
   */
  @Override
  public final void close() {
    if (parent == null) {
      leases.close(this);
    } else {
      closed = true;
    }
  }

  /** Throws unless offset and bytes describe a part of this memory. */
  protected final void checkRange(long offset, long bytes) {
    if (offset < 0 || bytes < 0 || offset > size - bytes) {
      throw new InvalidArgumentException(
          ErrorId.BUFFER,
          "%d bytes from offset %d on are not inside a memory of %d bytes"
              .formatted(bytes, offset, size),
          "pass an offset and a length that fit, or allocate more");
    }
  }

  /** Throws for a read-only buffer. */
  protected static void checkWritable(ByteBuffer target) {
    if (target.isReadOnly()) {
      throw new InvalidArgumentException(
          ErrorId.BUFFER,
          "memory is read into a read-only buffer of %d bytes".formatted(target.remaining()),
          "pass a buffer that may be written to");
    }
  }

  /** Throws after close. */
  protected final void checkOpen() {
    if (!isOpen()) {
      throw closed();
    }
  }

  /** Begins a lease for a copy, which {@code leases().end()} ends; throws after close. */
  protected final Leases lease() {
    if (!isOpen() || !leases.begin()) {
      throw closed();
    }
    return leases;
  }

  /** The error of a use after close. */
  final InvalidUsageException closed() {
    return new InvalidUsageException(
        ErrorId.CLOSED,
        "memory of %d bytes at 0x%x is used after close".formatted(size, address()),
        "close memory only after its last use");
  }

  @Override
  public String toString() {
    return "%d bytes at 0x%x of %s".formatted(size, address(), device().name());
  }
}
