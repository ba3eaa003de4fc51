package org.nccl4j.device.host.kernel.protocol;

import org.nccl4j.device.HotPath;

/**
 * Cuts a run of bytes into loops of one chunk for each of some owners, the same on all ranks. A
 * loop covers {@code owners} x chunk bytes; the last loop, which has less, is cut evenly into
 * smaller chunks, so that no owner waits for another's rest.
 */
public final class Chunking {
  private final long bytes;
  private final int owners;
  private final int fullChunk;

  /** The chunk of the last loop. */
  private final long lastChunk;

  /** Offset of the current loop in bytes. */
  private long begin;

  private long chunk;

  public Chunking(long bytes, int owners, int elementBytes, int chunkBytes) {
    this.bytes = bytes;
    this.owners = owners;
    this.fullChunk = chunkBytes - chunkBytes % elementBytes;
    long loop = (long) owners * fullChunk;
    long last = bytes == 0 ? 0 : (bytes - 1) % loop + 1;
    this.lastChunk = (last / elementBytes + owners - 1) / owners * elementBytes;
  }

  /** Begins the first loop; false if there is none. */
  @HotPath
  public boolean first() {
    return at(0);
  }

  /** Goes on to the next loop; false if there is none. */
  @HotPath
  public boolean next() {
    return at(begin + owners * chunk);
  }

  /** Goes back to a loop by where it begins. */
  @HotPath
  public void from(long offset) {
    at(offset);
  }

  private boolean at(long offset) {
    begin = offset;
    long rest = bytes - offset;
    if (rest <= 0) {
      return false;
    }
    chunk = rest >= (long) owners * fullChunk ? fullChunk : lastChunk;
    return true;
  }

  /** Returns the offset of the current loop in bytes. */
  @HotPath
  public long begin() {
    return begin;
  }

  /** Returns the offset of an owner's chunk of the current loop. */
  @HotPath
  public long offset(int owner) {
    return begin + owner * chunk;
  }

  /** Bytes of an owner's chunk of the current loop; may be 0 in the last loop. */
  @HotPath
  public int bytes(int owner) {
    return (int) Math.max(0, Math.min(chunk, bytes - offset(owner)));
  }
}
