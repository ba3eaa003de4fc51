package org.nccl4j.device.cuda.plan;

/** Offsets in nccl4jReductionArguments of nccl4j_reduction.cuh, which a test compares. */
public final class ReductionArguments {
  public static final int STRIDE = 64;
  public static final int COUNT = 72;
  public static final int COUNTED = 80;
  public static final int COPIES = 88;
  public static final int WIDE = 92;
  public static final int VALUES = 96;
  public static final int SIZE = 104;

  private ReductionArguments() {}
}
