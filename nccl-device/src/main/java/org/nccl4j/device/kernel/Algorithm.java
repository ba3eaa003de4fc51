package org.nccl4j.device.kernel;

import java.util.List;
import java.util.stream.Stream;

/** The data movement of a collective, with the names in NCCL_ALGO. */
public enum Algorithm {
  /** Double binary tree. */
  TREE("Tree"),
  /** Ring. */
  RING("Ring"),
  /** Every rank sends all that another needs straight to it, and combines what it receives. */
  ONE_SHOT("OneShot", /* rankOrdered= */ true),
  /** Reduce-scatter straight to each part's owner, then all-gather straight from it. */
  TWO_SHOT("TwoShot", /* rankOrdered= */ true),
  /** NVLink SHARP: each head combines its part by loads from all, and gives it out by one store. */
  NVLS("NVLS"),
  /**
   * Between machines: each head combines its part of its machine as in NVLS; the heads of one part
   * combine theirs along a double binary tree, and give the result out on their machines.
   */
  NVLS_TREE("NVLSTree"),
  /** Parallel aggregated trees: a tree for each rank's part, their messages put together. */
  PAT("PAT");

  private final String label;
  private final boolean rankOrdered;

  Algorithm(String label) {
    this(label, /* rankOrdered= */ false);
  }

  Algorithm(String label, boolean rankOrdered) {
    this.label = label;
    this.rankOrdered = rankOrdered;
  }

  /** The algorithms that combine every element in the order of the ranks. */
  public static List<Algorithm> inRankOrder() {
    return Stream.of(values()).filter(algorithm -> algorithm.rankOrdered).toList();
  }

  /** All names that NCCL_ALGO takes: the algorithms', and those of ways between windows. */
  public static List<String> names() {
    return Stream.concat(
            Stream.of(values()).map(Algorithm::label),
            Stream.of(DirectWork.Way.values()).map(DirectWork.Way::label))
        .distinct()
        .toList();
  }

  /** The name in NCCL_ALGO, in tables and in JSON. */
  public String label() {
    return label;
  }
}
