package org.nccl4j.device.host.kernel.protocol;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.support.CopyWays;

/**
 * Copies from buffer to buffer, of a rank's own or a peer's, that pass no slot: by the ways that
 * are measured in use, for all such copies of a communicator. Owned by the thread that runs its
 * current kernel.
 */
public final class BufferCopies {
  private final MeasuredCopies kept = MeasuredCopies.betweenBuffers(CopyWays.ofProcess());
  private final MeasuredCopies leaving = MeasuredCopies.leaving(CopyWays.ofProcess());

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
