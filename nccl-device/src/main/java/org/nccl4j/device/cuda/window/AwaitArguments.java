package org.nccl4j.device.cuda.window;

/**
 * Offsets in nccl4jAwaitArguments of src/main/cuda/direct_layout.h, which a test compares; before
 * them lie {@link DirectArguments}.
 */
final class AwaitArguments {
  static final int AWAITED = 160;
  static final int SIZE = 672;

  private AwaitArguments() {}
}
