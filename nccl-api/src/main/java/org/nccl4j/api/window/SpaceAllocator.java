package org.nccl4j.api.window;

import java.util.Map;
import java.util.TreeMap;
import org.nccl4j.device.InternalErrorException;

/**
 * Allocates parts of a range of offsets: always the lowest that fits, so that ranks that make the
 * same requests in the same order get the same parts. Used by one thread at a time.
 */
final class SpaceAllocator {
  /** Result of {@link #allocate} when nothing fits. */
  static final long NONE = -1;

  private final long size;

  /** Parts in use: offset to end. Neighbours are not merged. */
  private final TreeMap<Long, Long> used = new TreeMap<>();

  /** A range of offsets from 0 to a size, all of it free. */
  SpaceAllocator(long size) {
    this.size = size;
  }

  /**
   * Takes a part.
   *
   * @param bytes at least 1
   * @param alignment a power of two
   * @return its offset, or {@link #NONE}
   */
  long allocate(long bytes, long alignment) {
    if (bytes <= 0 || Long.bitCount(alignment) != 1) {
      throw new InternalErrorException(
          "a part of %d bytes aligned to %d is requested".formatted(bytes, alignment),
          "report this defect");
    }
    long at = 0;
    for (Map.Entry<Long, Long> part : used.entrySet()) {
      if (part.getKey() - at >= bytes) {
        break;
      }
      at = Math.max(at, (part.getValue() + alignment - 1) & -alignment);
    }
    if (at > size - bytes) {
      return NONE;
    }
    used.put(at, at + bytes);
    return at;
  }

  /** Gives a part back. */
  void free(long offset) {
    if (used.remove(offset) == null) {
      throw new InternalErrorException(
          "offset %d is given back, and is not in use".formatted(offset), "report this defect");
    }
  }

  /** Bytes in use. */
  long usedBytes() {
    return used.entrySet().stream().mapToLong(part -> part.getValue() - part.getKey()).sum();
  }

  /** Bytes in all. */
  long size() {
    return size;
  }
}
