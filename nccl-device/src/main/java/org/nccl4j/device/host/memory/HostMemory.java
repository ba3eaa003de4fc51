package org.nccl4j.device.host.memory;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.Leases;

/**
 * A range of this process's addresses.
 *
 * <p>Byte buffers end at 2 GiB, so a range is covered by windows that begin every GiB and overlap:
 * any access of up to {@link #MAX_ACCESS} bytes lies inside the window of its first byte. {@code
 * window} and {@code index} give that window and the place in it; both are cheap and allocate
 * nothing.
 */
public final class HostMemory extends DeviceMemory {
  /** Most bytes of one access. */
  public static final int MAX_ACCESS = BufferViews.MAX_BYTES - BufferViews.MASK;

  private final Device device;

  /** Cleanup of the whole range; the range and its slices keep it reachable. */
  private final Runnable release;

  private final ByteBuffer[] windows;

  /** True if the windows keep their range mapped. All slices of the range share it. */
  private final AtomicBoolean viewed;

  /** Registrations of the range or of parts of it. All slices of the range share it. */
  private final AtomicInteger registrations;

  private final long base;
  private final long address;

  /** Null unless other processes can map it. All slices of the range share it. */
  private final MappableSegment segment;

  /** Null if other processes can map it, and of memory that a user has no part in. */
  private final CopyReason copied;

  /**
   * A range of addresses.
   *
   * @param release called once, by close; objects that it refers to stay reachable until then, and
   *     by every slice
   */
  public HostMemory(Device device, long address, long bytes, Runnable release) {
    this(device, address, bytes, release, /* segment= */ null, /* copied= */ null);
  }

  /**
   * A range of addresses that other processes cannot map.
   *
   * @param release as above
   * @param copied the reason why they cannot
   */
  public HostMemory(Device device, long address, long bytes, Runnable release, CopyReason copied) {
    this(device, address, bytes, release, /* segment= */ null, copied);
  }

  /**
   * A range of addresses.
   *
   * @param release as above
   * @param segment the segment that it lies in, which other processes can map
   */
  public HostMemory(
      Device device, long address, long bytes, Runnable release, MappableSegment segment) {
    this(device, address, bytes, release, segment, /* copied= */ null);
  }

  private HostMemory(
      Device device,
      long address,
      long bytes,
      Runnable release,
      MappableSegment segment,
      CopyReason copied) {
    super(bytes, Leases.freeing(release));
    this.device = device;
    this.release = release;
    this.windows = BufferViews.over(address, bytes);
    this.viewed = new AtomicBoolean();
    this.registrations = new AtomicInteger();
    this.base = 0;
    this.address = address;
    this.segment = segment;
    this.copied = copied;
  }

  private HostMemory(HostMemory parent, long offset, long bytes) {
    super(parent, bytes);
    this.device = parent.device;
    this.release = parent.release;
    this.windows = parent.windows;
    this.viewed = parent.viewed;
    this.registrations = parent.registrations;
    this.base = parent.base + offset;
    this.address = parent.address + offset;
    this.segment = parent.segment;
    this.copied = parent.copied;
  }

  /** The window that holds the bytes from an offset on. */
  public ByteBuffer window(long offset) {
    return windows[(int) ((base + offset) >>> BufferViews.SHIFT)];
  }

  /** Returns the index of an offset in its window. */
  public int index(long offset) {
    return (int) (base + offset) & BufferViews.MASK;
  }

  /**
   * All of it as a buffer in the processor's byte order. The memory stays mapped while the buffer,
   * or a slice of it, is reachable, unless it is closed.
   *
   * @throws InvalidArgumentException if it has more bytes than a buffer can
   */
  public ByteBuffer view() {
    if (size() > BufferViews.MAX_BYTES) {
      throw new InvalidArgumentException(
          ErrorId.BUFFER,
          "a byte buffer cannot show %d bytes of memory; %d are the most"
              .formatted(size(), BufferViews.MAX_BYTES),
          "view the memory in parts, by HostDevice.view with an offset and a size");
    }
    int bytes = (int) size();
    ByteBuffer window = window(0);
    if (bytes > window.capacity() - index(0)) {
      ByteBuffer own = BufferViews.over(address, bytes)[0];
      BufferViews.keep(own, release);
      return own;
    }
    if (viewed.compareAndSet(false, true)) {
      for (ByteBuffer each : windows) {
        BufferViews.keep(each, release);
      }
    }
    return window.slice(index(0), bytes).order(ByteOrder.nativeOrder());
  }

  @Override
  public Device device() {
    return device;
  }

  @Override
  public long address() {
    return address;
  }

  /** The segment that it lies in, where other processes can map that; else null. */
  @HotPath
  public MappableSegment segment() {
    return segment;
  }

  /** The reason why other processes cannot map it; null if they can, or none is known. */
  public CopyReason copied() {
    return copied;
  }

  /** True if a user has registered the range that it lies in, or a part of that. */
  @HotPath
  public boolean isRegistered() {
    return registrations.get() > 0;
  }

  /** Adds to the number of registrations. */
  public void countRegistrations(int more) {
    registrations.addAndGet(more);
  }

  /** Kernels in a queue keep the allocation reachable, so it has to be the same one. */
  @Override
  public boolean isSameAs(DeviceMemory other) {
    return Arguments.notNull(other, "memory") instanceof HostMemory same
        && Leases.of(same) == Leases.of(this)
        && same.address == address
        && same.size() == size();
  }

  @Override
  public HostMemory slice(long offset, long bytes) {
    checkOpen();
    checkRange(offset, bytes);
    return new HostMemory(this, offset, bytes);
  }

  @Override
  public void write(long offset, ByteBuffer source) {
    Arguments.notNull(source, "buffer");
    Leases lease = lease();
    try {
      checkRange(offset, source.remaining());
      long to = offset;
      while (source.hasRemaining()) {
        int bytes = Math.min(source.remaining(), MAX_ACCESS);
        window(to).put(index(to), source, source.position(), bytes);
        source.position(source.position() + bytes);
        to += bytes;
      }
    } finally {
      lease.end();
      Reference.reachabilityFence(this);
    }
  }

  @Override
  public void read(long offset, ByteBuffer target) {
    checkWritable(Arguments.notNull(target, "buffer"));
    Leases lease = lease();
    try {
      readLaunched(offset, target);
    } finally {
      lease.end();
    }
  }

  /** Same as {@link #read}, for a launched operation, which may run after close. */
  public void readLaunched(long offset, ByteBuffer target) {
    checkRange(offset, target.remaining());
    long from = offset;
    while (target.hasRemaining()) {
      int bytes = Math.min(target.remaining(), MAX_ACCESS);
      target.put(target.position(), window(from), index(from), bytes);
      target.position(target.position() + bytes);
      from += bytes;
    }
    Reference.reachabilityFence(this);
  }

  @Override
  public void fill(byte value) {
    Leases lease = lease();
    try {
      byte[] block = new byte[(int) Math.min(size(), 1 << 16)];
      Arrays.fill(block, value);
      for (long at = 0; at < size(); at += block.length) {
        int bytes = (int) Math.min(block.length, size() - at);
        window(at).put(index(at), block, 0, bytes);
      }
    } finally {
      lease.end();
      Reference.reachabilityFence(this);
    }
  }

  /** The address of a direct buffer's first byte. */
  public static long addressOf(ByteBuffer direct) {
    return BufferViews.addressOf(direct);
  }

  /** Copies bytes from address to address, by the C library. */
  @HotPath
  public static void move(long from, long to, long bytes) {
    BufferViews.move(from, to, bytes);
  }

  /** This memory, if it is of the host; for kernels, whose launches have been checked. */
  public static HostMemory of(DeviceMemory memory) {
    if (memory instanceof HostMemory host) {
      return host;
    }
    throw new InvalidUsageException(
        ErrorId.UNSUPPORTED,
        memory + " is given to an operation of the host device",
        "pass memory of the communicator's own device");
  }
}
