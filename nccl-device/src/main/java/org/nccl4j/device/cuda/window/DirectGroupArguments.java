package org.nccl4j.device.cuda.window;

/**
 * Offsets in nccl4jDirectGroupArguments and nccl4jDirectWork of
 * src/main/cuda/direct_group_layout.h, which a test compares. The arguments begin as {@link
 * DirectArguments}.
 */
final class DirectGroupArguments {
  static final int MOST_WORKS = 64;

  static final int N_PARTS = 160;
  static final int ENDS = 164;
  static final int WORK_OF = 168;
  static final int WORKS = 296;
  static final int SIZE = 3368;

  static final int WORK_SEND = 0;
  static final int WORK_RECV = 8;
  static final int WORK_BYTES = 16;
  static final int WORK_LINES = 24;
  static final int WORK_OPERATION = 32;
  static final int WORK_ROOT = 34;
  static final int WORK_OP = 36;
  static final int WORK_SIGNATURE = 40;
  static final int WORK_FIRST_PART = 44;
  static final int WORK_N_PARTS = 46;
  static final int WORK_SIZE = 48;

  private DirectGroupArguments() {}
}
