package org.nccl4j.device.cuda.window;

import org.nccl4j.device.kernel.ExpertKernels.Form;
import org.nccl4j.device.kernel.RaggedKernels.Sizes;

/**
 * Offsets in the window of a ragged exchange. The kernel gets them as arguments.
 *
 * @param counted LL lines of counts: two halves used in turn, in each those of every rank
 * @param flags u64 a block and rank, written by the rank: stores that are done
 * @param lines LL lines of elements: two halves used in turn, in each a part for every rank
 * @param lineBytes most bytes of elements that go from one rank to another in lines
 * @param bytes all of it
 */
record RaggedLayout(long counted, long flags, long lines, long lineBytes, long bytes) {
  /** NCCL4J_RAGGED_RANKS of ragged_layout.h. */
  static final int RANKS = 32;

  private static final int LINE_BYTES = 16;
  private static final int LINE_DATA = 8;

  /** Bytes of all ranks for each other in lines, beyond which these are slower than stores. */
  private static final long ALL_LINES = 1 << 20;

  private static final long LEAST_LINES = 32 << 10;

  static RaggedLayout of(Sizes sizes, Form form) {
    int n = sizes.nRanks();
    long flags = PartAlignment.aligned(2L * n * (n + 1) * LINE_BYTES);
    long lines = flags + PartAlignment.aligned((long) Long.BYTES * RANKS * form.blocks());
    long lineBytes = form.wholeLines() ? lineBytes(sizes) : 0;
    long bytes = lines + PartAlignment.aligned(2 * n * lineBytes / LINE_DATA * LINE_BYTES);
    return new RaggedLayout(0, flags, lines, lineBytes, bytes);
  }

  private static long lineBytes(Sizes sizes) {
    long n = sizes.nRanks();
    long most = Math.max(LEAST_LINES, ALL_LINES / n / n);
    if (n == 1 || sizes.elementBytes() > most) {
      return 0;
    }
    long all = sizes.maxCount() * sizes.elementBytes();
    return (Math.min(most, all) + LINE_DATA - 1) / LINE_DATA * LINE_DATA;
  }
}
