package org.nccl4j.device.host.kernel;

import org.nccl4j.device.HotPath;

/**
 * How a run of bytes is cut into loops of one chunk for each of some owners, the same on all ranks.
 * A loop covers {@code owners} x chunk bytes; the last loop, which has less, is cut evenly into
 * smaller chunks, so that no owner waits for another's rest.
 */
final class Parts {
  private final long bytes;
  private final int owners;
  private final int elementBytes;
  private final int fullChunk;

  /** Where the current loop begins, and its chunk, in bytes. */
  private long begin;

  private long chunk;

  Parts(long bytes, int owners, int elementBytes, int chunkBytes) {
    this.bytes = bytes;
    this.owners = owners;
    this.elementBytes = elementBytes;
    this.fullChunk = chunkBytes - chunkBytes % elementBytes;
  }

  /** Begins the first loop; false if there is none. */
  @HotPath
  boolean first() {
    return at(0);
  }

  /** Goes on to the next loop; false if there is none. */
  @HotPath
  boolean next() {
    return at(begin + owners * chunk);
  }

  /** Goes back to a loop by where it begins. */
  @HotPath
  void from(long offset) {
    at(offset);
  }

  private boolean at(long offset) {
    begin = offset;
    long rest = bytes - offset;
    if (rest <= 0) {
      return false;
    }
    long even = (rest / elementBytes + owners - 1) / owners * elementBytes;
    chunk = Math.min(fullChunk, even);
    return true;
  }

  /** Where the current loop begins. */
  @HotPath
  long begin() {
    return begin;
  }

  /** Where an owner's chunk of the current loop begins. */
  @HotPath
  long offset(int owner) {
    return begin + owner * chunk;
  }

  /** Bytes of an owner's chunk of the current loop; may be 0 in the last loop. */
  @HotPath
  int bytes(int owner) {
    return (int) Math.max(0, Math.min(chunk, bytes - offset(owner)));
  }
}
