package org.nccl4j.device.cuda.window;

import org.nccl4j.device.symmetric.ResourceLayout;

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
    long bytes) {
  /** Blocks that have flags. */
  public static final int BLOCKS = 128;

  /** Ranks that have flags. */
  public static final int RANKS = 32;

  private static final long ALL_LINES = 4L << 20;
  private static final long LEAST_LINES = 128L << 10;

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
    return new DirectLayout(
        flags, epoch, arrivals, engine, counts, lines, lineBytes, lines + 2 * team * lineBytes);
  }

  /** Most bytes of data that a rank can send another in lines. */
  public static long lineData(int team) {
    return of(team).lineBytes() / 2;
  }
}
