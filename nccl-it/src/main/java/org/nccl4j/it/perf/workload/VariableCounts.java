package org.nccl4j.it.perf.workload;

/**
 * The counts of alltoallv: between half of the mean and one and a half of it, the same in every
 * process, and no rank sends or receives more than in alltoall of the same size.
 */
public final class VariableCounts {
  private VariableCounts() {}

  /**
   * Elements from one rank to another.
   *
   * @param mean elements that alltoall would send
   */
  public static long between(int source, int target, int nRanks, long mean) {
    if (nRanks == 1) {
      return mean;
    }
    int step = (source + target) % nRanks;
    return mean / 2 + mean * step / (nRanks - 1);
  }

  /** Returns the offset of a target's part in a source's send buffer. */
  public static long sendOffset(int source, int target, int nRanks, long mean) {
    long offset = 0;
    for (int before = 0; before < target; before++) {
      offset += between(source, before, nRanks, mean);
    }
    return offset;
  }

  /** Returns the offset of a source's part in a target's receive buffer. */
  public static long recvOffset(int source, int target, int nRanks, long mean) {
    long offset = 0;
    for (int before = 0; before < source; before++) {
      offset += between(before, target, nRanks, mean);
    }
    return offset;
  }
}
