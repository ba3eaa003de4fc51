package org.nccl4j.device.cuda.plan;

/** Offsets in nccl4jQuantiseArguments of src/main/cuda/quantise_layout.h, which a test compares. */
final class QuantiseArguments {
  static final int RESIDUAL = 64;
  static final int COUNT = 72;
  static final int PART = 80;
  static final int PART_BYTES = 88;
  static final int BLOCKS = 96;
  static final int N_PARTS = 104;
  static final int BLOCK = 108;
  static final int INT8 = 112;
  static final int AVERAGES = 116;
  static final int QUANTISES = 120;
  static final int SIZE = 128;

  private QuantiseArguments() {}
}
