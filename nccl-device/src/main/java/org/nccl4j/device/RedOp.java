package org.nccl4j.device;

/**
 * The operator that combines the ranks' elements. The order is NCCL's, so that {@link #ordinal()}
 * is the number that NCCL and our kernels use.
 */
public enum RedOp {
  /** The sum; integers wrap. */
  SUM("sum"),
  /** The product; integers wrap. */
  PROD("prod"),
  /** The greatest; of two numbers of which one is NaN, the other. */
  MAX("max"),
  /** The least; of two numbers of which one is NaN, the other. */
  MIN("min"),
  /**
   * The mean. Floating point: each rank's element is divided by the number of ranks before it is
   * added, so that the sum cannot overflow. The host device divides. GPUs multiply by the rounded
   * reciprocal, so unless the number of ranks is a power of two, an element may differ from the
   * quotient in its last bit before it is added. Integers: the wrapped sum divided by the ranks,
   * towards zero, on both.
   */
  AVG("avg");

  private final String label;

  RedOp(String label) {
    this.label = label;
  }

  /** The name that nccl-tests uses for it. */
  public String label() {
    return label;
  }
}
