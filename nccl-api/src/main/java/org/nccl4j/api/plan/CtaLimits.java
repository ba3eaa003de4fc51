package org.nccl4j.api.plan;

/**
 * How many blocks (CTAs) an operation takes on a GPU: NCCL_MIN_CTAS and NCCL_MAX_CTAS. The same on
 * all ranks, since a block talks to the peers' blocks of its number.
 *
 * @param fewest at least 1
 * @param most where it is less than the fewest, it counts
 */
public record CtaLimits(int fewest, int most) {
  /** For devices that have no blocks. */
  public static final CtaLimits NONE = new CtaLimits(1, Integer.MAX_VALUE);

  /** A number of blocks within the limits; 0, which leaves it to the device, stays. */
  int limit(int blocks) {
    return blocks == 0 ? 0 : Math.min(most, Math.max(fewest, blocks));
  }
}
