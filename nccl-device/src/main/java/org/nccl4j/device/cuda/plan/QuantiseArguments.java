package org.nccl4j.device.cuda.plan;

/** Offsets in nccl4jQuantiseArguments of src/main/cuda/quantise_layout.h, which a test compares. */
final class QuantiseArguments {
  static final int RESIDUAL = 64;
  static final int COUNT = 72;
  static final int PART = 80;
  static final int PART_BYTES = 88;
  static final int BLOCKS = 96;
  static final int COPY_BYTES = 104;
  static final int N_PARTS = 112;
  static final int BLOCK = 116;
  static final int INT8 = 120;
  static final int DIVISOR = 124;
  static final int QUANTISES = 128;
  static final int INDEX = 132;
  static final int COPIES = 136;
  static final int SIZE = 144;

  private QuantiseArguments() {}
}
