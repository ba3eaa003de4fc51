package org.nccl4j.device.cuda.window;

/**
 * Offsets in nccl4jExpertPackArguments of src/main/cuda/expert_pack_layout.h, which a test
 * compares.
 */
final class ExpertPackArguments {
  static final int ITEMS = 64;
  static final int TARGETS = 72;
  static final int SCALES = 80;
  static final int WEIGHTS = 88;
  static final int COUNT = 96;
  static final int FROM = 104;
  static final int TO = 112;
  static final int ROW_BYTES = 120;
  static final int GROUPS = 124;
  static final int TOP_K = 128;
  static final int SIZE = 136;

  private ExpertPackArguments() {}
}
