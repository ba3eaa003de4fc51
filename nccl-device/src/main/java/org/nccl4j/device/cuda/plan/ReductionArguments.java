package org.nccl4j.device.cuda.plan;

/** Offsets in nccl4jReductionArguments of nccl4j_reduction.cuh, which a test compares. */
final class ReductionArguments {
  static final int STRIDE = 64;
  static final int COUNT = 72;
  static final int COPIES = 80;
  static final int SIZE = 88;

  private ReductionArguments() {}
}
