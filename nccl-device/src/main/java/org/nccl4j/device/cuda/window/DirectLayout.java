package org.nccl4j.device.cuda.window;

import org.nccl4j.device.symmetric.ResourceLayout;
import org.nccl4j.operation.Algorithm;

/**
 * Offsets in the library's own window on GPUs, after the part that all devices have. The kernels
 * get them as arguments.
 *
 * @param flags u64 a block and rank, written by the rank: barriers of blocks
 * @param epoch u32 a block: its copy of the count of direct kernels so far
 * @param arrivals u64 a rank, written by the rank: the last meeting of streams that it came to
 * @param engine words of launches beside copy engines, among two ranks
 * @param counts u64 signals sent to each rank, then u64 those waited for from each; the owner's
 *     alone
 * @param lines LL lines: two halves used in turn, in each a part for what each rank writes
 * @param lineBytes bytes of one rank's part of a half
 * @param groups LL128 lines, in halves and parts likewise, in groups of four
 * @param groupBytes bytes of one rank's part of a half of these
 * @param bytes all of it
 */
public record DirectLayout(
    long flags,
    long epoch,
    long arrivals,
    long engine,
    long counts,
    long lines,
    long lineBytes,
    long groups,
    long groupBytes,
    long bytes) {
  /** Blocks that have flags. */
  public static final int BLOCKS = 128;

  /** Ranks that have flags, more than NVLink connects. */
  public static final int RANKS = 128;

  private static final long ALL_LINES = 4L << 20;
  private static final long LEAST_LINES = 128L << 10;

  /** Bytes of a group of LL128 lines, and those of them that are data. */
  static final int GROUP_BYTES = 512;

  static final int GROUP_DATA = 480;
  private static final long ALL_GROUPS = 2L << 20;

  public static DirectLayout of(int team) {
    long flags = new ResourceLayout(team).rest();
    long epoch = flags + 8L * BLOCKS * RANKS;
    long arrivals = epoch + 2048;
    long engine = epoch + 3072;
    long counts = epoch + 4096;
    long lines = counts + 4096;
    // Half of that as data: beyond it, lines of more ranks are slower than other ways.
    int ranks = Integer.highestOneBit(team);
    long lineBytes = Math.max(LEAST_LINES, ALL_LINES / ranks / ranks);
    long groups = lines + 2 * team * lineBytes;
    long data = Math.max(LEAST_LINES, ALL_GROUPS / ranks / ranks);
    long groupBytes = (data + GROUP_DATA - 1) / GROUP_DATA * GROUP_BYTES;
    return new DirectLayout(
        flags,
        epoch,
        arrivals,
        engine,
        counts,
        lines,
        lineBytes,
        groups,
        groupBytes,
        groups + 2 * team * groupBytes);
  }

  /** Most bytes of data that a rank can send another by an algorithm that goes in lines. */
  public static long lineData(int team, Algorithm algorithm) {
    return of(team).lineData(algorithm);
  }

  long lineData(Algorithm algorithm) {
    return algorithm == Algorithm.DIRECT_LL128
        ? groupBytes / GROUP_BYTES * GROUP_DATA
        : lineBytes / 2;
  }
}
