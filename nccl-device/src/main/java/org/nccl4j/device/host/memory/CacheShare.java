package org.nccl4j.device.host.memory;

import java.util.BitSet;
import java.util.List;
import org.nccl4j.device.os.AllowedCores;
import org.nccl4j.device.os.CoreLayout;
import org.nccl4j.device.os.CoreLayout.Cache;

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
      share = share(local);
      bytes = share;
    }
    return 2 * received > share;
  }

  /**
   * The bytes of the last cache that a rank has for itself, where all ranks of the machine use
   * equally much.
   *
   * @param local cores of the ranks, this rank's first
   * @return {@link Long#MAX_VALUE} if they are not known
   */
  static long share(List<AllowedCores> local) {
    return share(CoreLayout.here().lastCaches(), local);
  }

  /**
   * The same of a machine's caches. A rank that may run on cores of several caches counts as a part
   * of a rank on each.
   */
  static long share(List<Cache> caches, List<AllowedCores> local) {
    double[] ranks = new double[caches.size()];
    for (AllowedCores rank : local) {
      double[] parts = parts(caches, rank);
      for (int c = 0; c < ranks.length; c++) {
        ranks[c] += parts[c];
      }
    }
    double[] own = parts(caches, local.get(0));
    double bytes = 0;
    for (int c = 0; c < ranks.length; c++) {
      bytes += own[c] * caches.get(c).bytes() / Math.max(1, ranks[c]);
    }
    return bytes == 0 ? Long.MAX_VALUE : Math.max(1, (long) bytes);
  }

  /** The part of a rank's cores that each cache has; of all cores if they are not known. */
  private static double[] parts(List<Cache> caches, AllowedCores rank) {
    BitSet allowed = rank.cores();
    double[] counts = new double[caches.size()];
    double sum = 0;
    for (int c = 0; c < counts.length; c++) {
      BitSet cores = (BitSet) caches.get(c).cores().clone();
      if (!allowed.isEmpty()) {
        cores.and(allowed);
      }
      counts[c] = cores.cardinality();
      sum += counts[c];
    }
    for (int c = 0; c < counts.length; c++) {
      counts[c] /= Math.max(1, sum);
    }
    return counts;
  }
}
