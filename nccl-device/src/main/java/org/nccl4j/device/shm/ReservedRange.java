package org.nccl4j.device.shm;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
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
  /** A multiple of every size of pages. */
  private static final long MOST_PAGE = 64 << 10;

  private final long address;
  private final long bytes;
  private final TreeMap<Long, Long> mapped = new TreeMap<>();

  /**
   * Ranges where a mapping failed. Others may have mapped them now, so they are never touched
   * again.
   */
  private final TreeMap<Long, Long> lost = new TreeMap<>();

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
    if (size < length) { // an access behind the end would kill the process
      throw new SystemErrorException(
          ErrorId.SHARED_MEMORY,
          "a shared segment has %d bytes, fewer than the %d expected".formatted(size, length),
          "run the same version of nccl4j with the same settings on all ranks");
    }
    checkNotLost(offset, length);
    try {
      Libc.mapSharedAt(address + offset, fd, length);
    } catch (RuntimeException e) {
      refill(offset, length);
      throw e;
    }
    mapped.put(offset, length);
  }

  /** Undoes a mapping; its addresses stay reserved. */
  public void unmap(long offset) {
    Long length = mapped.remove(offset);
    if (length == null) {
      throw new InternalErrorException(
          "nothing is mapped at %d of a reserved range".formatted(offset), "report this defect");
    }
    try {
      Libc.reserveAgain(address + offset, length);
    } catch (RuntimeException e) {
      refill(offset, length);
      throw e;
    }
  }

  private void checkNotLost(long offset, long length) {
    Long before = lost.floorKey(offset + length - 1);
    if (before != null && before + lost.get(before) > offset) {
      throw new SystemErrorException(
          ErrorId.MEMORY,
          "%d bytes cannot be mapped at 0x%x, where a mapping has failed before"
              .formatted(length, address + offset),
          "raise the limit on mappings (sysctl vm.max_map_count) and start the process again");
    }
  }

  /**
   * After a failure to map or unmap a part. The kernel may have taken away what was there before it
   * failed, and another thread may have mapped something in the hole, which must stay.
   */
  void refill(long offset, long length) {
    long from = address + offset;
    if (!Libc.reserveFree(from, length) && !isReserved(from, length)) {
      long end = (from + length + MOST_PAGE - 1) / MOST_PAGE * MOST_PAGE;
      lost.put(offset, Math.min(end - address, bytes) - offset);
    }
  }

  /** True if there are addresses without memory, as of a reservation, and nothing else. */
  static boolean isReserved(long from, long length) {
    long at = from;
    try {
      for (String line : Files.readAllLines(Path.of("/proc/self/maps"))) {
        String[] words = line.split("[ ]+");
        String[] ends = words[0].split("-");
        long begin = Long.parseUnsignedLong(ends[0], 16);
        long end = Long.parseUnsignedLong(ends[1], 16);
        boolean covers = begin <= at && end > at;
        if (covers && words[1].equals("---p") && words[4].equals("0")) { // no file's
          at = end;
        }
      }
    } catch (IOException e) {
      return false; // nobody can tell
    }
    return at >= from + length;
  }

  /** Unmaps everything and gives the addresses back. */
  @Override
  public void close() {
    if (!closed) {
      closed = true;
      mapped.clear();
      long from = 0;
      for (Map.Entry<Long, Long> part : lost.entrySet()) {
        unmap(from, part.getKey());
        from = part.getKey() + part.getValue();
      }
      unmap(from, bytes);
    }
  }

  private void unmap(long from, long to) {
    if (to > from) {
      Libc.unmap(address + from, to - from);
    }
  }
}
