package org.nccl4j.device.cuda;

import org.nccl4j.device.symmetric.ResourceLayout;

/**
 * Offsets in the library's own window on GPUs, after the part that all devices have. The kernels
 * get them as arguments.
 *
 * @param flags u32 a block and rank, written by the rank: barriers of blocks
 * @param copyFlags u32 a rank, twice: that it is ready, and that it is done, for copy engines
 * @param epoch u32 count of the direct kernels so far, u32 blocks of the current one that are done
 * @param lines LL lines: two halves used in turn, in each a part for what each rank writes
 * @param lineBytes bytes of one rank's part of a half
 * @param bytes all of it
 */
record DirectLayout(
    long flags, long copyFlags, long epoch, long lines, long lineBytes, long bytes) {
  /** Blocks that have flags. */
  static final int BLOCKS = 128;

  /** Ranks that have flags. */
  static final int MOST_RANKS = 32;

  private static final long BLOCK_STRIDE = 4 * MOST_RANKS;
  private static final long ALL_LINES = 4L << 20;
  private static final long LEAST_LINES = 64L << 10;

  static DirectLayout of(int team) {
    long flags = new ResourceLayout(team).rest();
    long copyFlags = flags + BLOCKS * BLOCK_STRIDE;
    long epoch = copyFlags + 4096;
    long lines = epoch + 4096;
    long lineBytes = Math.max(LEAST_LINES, ALL_LINES / Integer.highestOneBit(team));
    return new DirectLayout(
        flags, copyFlags, epoch, lines, lineBytes, lines + 2 * team * lineBytes);
  }

  /** Most bytes of data that a rank can send another in lines. */
  long lineData() {
    return lineBytes / 2;
  }
}
