package org.nccl4j.device.shm;

import java.util.TreeMap;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.SystemErrorException;

/**
 * Addresses of this process without memory, into which shared segments are mapped. Touching what is
 * not mapped ends the process.
 *
 * <p>One thread at a time.
 */
public final class ReservedRange implements AutoCloseable {
  private final long address;
  private final long bytes;
  private final TreeMap<Long, Long> mapped = new TreeMap<>();
  private boolean closed;

  private ReservedRange(long address, long bytes) {
    this.address = address;
    this.bytes = bytes;
  }

  /**
   * Reserves addresses.
   *
   * @param bytes how many, a multiple of the page size
   * @throws org.nccl4j.device.SystemErrorException if there are not so many
   */
  public static ReservedRange of(long bytes) {
    MappedRegion.checkSize(bytes);
    return new ReservedRange(Libc.reserve(bytes), bytes);
  }

  /** The first address. */
  public long address() {
    return address;
  }

  /**
   * Maps a shared segment, from its beginning.
   *
   * @param fd stays the caller's
   * @param length at most the segment's size
   * @throws SystemErrorException if the segment is smaller
   */
  public void map(long offset, int fd, long length) {
    Long before = mapped.floorKey(offset + length - 1);
    boolean overlaps = before != null && before + mapped.get(before) > offset;
    if (closed || offset < 0 || length <= 0 || length > bytes - offset || overlaps) {
      throw new InternalErrorException(
          "%d bytes are mapped at %d of a range of %d%s"
              .formatted(length, offset, bytes, overlaps ? ", over another mapping" : ""),
          "report this defect");
    }
    long size = Libc.size(fd);
    if (size < length) { // to touch what is behind its end would end the process
      throw new SystemErrorException(
          ErrorId.SHARED_MEMORY,
          "a shared segment has %d bytes, fewer than the %d expected".formatted(size, length),
          "run the same version of nccl4j with the same settings on all ranks");
    }
    Libc.mapSharedAt(address + offset, fd, length);
    mapped.put(offset, length);
  }

  /** Undoes a mapping; its addresses stay reserved. */
  public void unmap(long offset) {
    Long length = mapped.remove(offset);
    if (length == null) {
      throw new InternalErrorException(
          "nothing is mapped at %d of a reserved range".formatted(offset), "report this defect");
    }
    Libc.reserveAgain(address + offset, length);
  }

  /** Unmaps everything and gives the addresses back. */
  @Override
  public void close() {
    if (!closed) {
      closed = true;
      mapped.clear();
      Libc.unmap(address, bytes);
    }
  }
}
