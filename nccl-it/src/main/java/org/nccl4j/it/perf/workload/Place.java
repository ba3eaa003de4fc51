package org.nccl4j.it.perf.workload;

/**
 * One rank's place in a workload.
 *
 * @param rank this rank
 * @param nRanks all ranks
 * @param root the root; 0 for workloads without one
 */
public record Place(int rank, int nRanks, int root) {
  /** True if this rank is the root. */
  public boolean isRoot() {
    return rank == root;
  }
}
