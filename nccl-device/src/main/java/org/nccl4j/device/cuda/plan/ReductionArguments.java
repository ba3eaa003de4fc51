package org.nccl4j.device.cuda.plan;

/** Offsets in nccl4jReductionArguments of nccl4j_reduction.cuh, which a test compares. */
final class ReductionArguments {
  static final int STRIDE = 64;
  static final int COUNT = 72;
  static final int COUNTED = 80;
  static final int COPIES = 88;
  static final int WIDE = 92;
  static final int VALUES = 96;
  static final int SIZE = 104;

  private ReductionArguments() {}
}
