package org.nccl4j.device.cuda.window;

/** Offsets in nccl4jRaggedSumArguments of ragged_layout.h, which a test compares. */
final class RaggedSumArguments {
  static final int COUNTED = 64;
  static final int WIDE = 72;
  static final int VALUES = 76;
  static final int COPIES = 80;
  static final int OP = 84;
  static final int SIZE = 88;

  private RaggedSumArguments() {}
}
