package org.nccl4j.device.host.kernel.protocol;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.support.CopyWays;
import org.nccl4j.device.support.CopyWays.Kind;

/**
 * Copies from buffer to buffer that pass no slot: by the ways that are measured in use, for all
 * such copies of a communicator, those of a rank's own buffers apart from those from and to a
 * peer's. Owned by the thread that runs its current kernel.
 */
public final class BufferCopies {
  private final MeasuredCopies kept;
  private final MeasuredCopies leaving;
  private final MeasuredCopies sums;

  /** Null for those of peers. */
  private final BufferCopies ofPeers;

  /** Copies of a rank's own buffers. */
  public BufferCopies() {
    this(CopyWays.ofProcess());
  }

  /**
   * Copies of a rank's own buffers.
   *
   * @param known the ways that others have found
   */
  BufferCopies(CopyWays known) {
    this(
        MeasuredCopies.kept(known, Kind.OWN),
        MeasuredCopies.leaving(known, Kind.OWN_LEAVING),
        MeasuredCopies.leaving(known, Kind.SUMS),
        new BufferCopies(
            MeasuredCopies.kept(known, Kind.PEERS),
            MeasuredCopies.leaving(known, Kind.PEERS_LEAVING),
            MeasuredCopies.leaving(known, Kind.PEERS_SUMS),
            null));
  }

  private BufferCopies(
      MeasuredCopies kept, MeasuredCopies leaving, MeasuredCopies sums, BufferCopies ofPeers) {
    this.kept = kept;
    this.leaving = leaving;
    this.sums = sums;
    this.ofPeers = ofPeers;
  }

  /** Those from and to buffers of peers. */
  public BufferCopies ofPeers() {
    return ofPeers;
  }

  /**
   * Copies up to {@link HostMemory#MAX_ACCESS} bytes.
   *
   * @param leaves whether the target leaves the caches before anybody reads it
   */
  @HotPath
  public void copy(
      HostMemory source,
      long sourceOffset,
      HostMemory target,
      long targetOffset,
      int bytes,
      boolean leaves) {
    (leaves ? leaving : kept).copy(source, sourceOffset, target, targetOffset, bytes);
  }

  /**
   * True if a sum of so many bytes that leaves the caches is to go through scratch memory, and from
   * there by {@link #copySum}. Where nothing is streamed, that is only so for a measurement.
   */
  @HotPath
  public boolean stagesSum(int bytes) {
    return sums.streams(bytes);
  }

  /** Copies a piece out of the first-level cache that then leaves the caches. */
  @HotPath
  public void copySum(
      HostMemory source, long sourceOffset, HostMemory target, long targetOffset, int bytes) {
    sums.copy(source, sourceOffset, target, targetOffset, bytes);
  }

  /** Those that are measured together. */
  MeasuredCopies measured(boolean leaves) {
    return leaves ? leaving : kept;
  }

  /**
   * Copies any number of bytes, unless source and target are the same.
   *
   * @param leaves as above
   */
  @HotPath
  public void copyAll(
      HostMemory source,
      long sourceOffset,
      HostMemory target,
      long targetOffset,
      long bytes,
      boolean leaves) {
    long apart = Math.abs(source.address() + sourceOffset - target.address() - targetOffset);
    if (apart < bytes) {
      Copies.copyAll(source, sourceOffset, target, targetOffset, bytes); // not by streaming stores
      return;
    }
    for (long at = 0; at < bytes; at += HostMemory.MAX_ACCESS) {
      int part = (int) Math.min(HostMemory.MAX_ACCESS, bytes - at);
      copy(source, sourceOffset + at, target, targetOffset + at, part, leaves);
    }
  }
}
