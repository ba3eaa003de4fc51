package org.nccl4j.device.host.memory;

import java.util.List;
import org.nccl4j.device.os.AllowedCores;

/** A rank's share of the last cache, found at the first use. Any thread. */
public final class CacheShare {
  private final List<AllowedCores> local;

  /** 0 before the first use. */
  private volatile long bytes;

  /**
   * The share of a rank.
   *
   * @param local cores of the machine's ranks, this rank's first
   */
  public CacheShare(List<AllowedCores> local) {
    this.local = local;
  }

  /**
   * True if the buffers of a rank that sends and receives so many bytes do not fit its share: what
   * is received first leaves the cache before the end.
   */
  public boolean isExceeded(long received) {
    long share = bytes;
    if (share == 0) {
      share = LastCache.share(local);
      bytes = share;
    }
    return 2 * received > share;
  }
}
