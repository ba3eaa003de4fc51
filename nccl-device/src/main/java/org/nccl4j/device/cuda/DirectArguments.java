package org.nccl4j.device.cuda;

/** Offsets in nccl4jDirectArguments of src/main/cuda/direct_layout.h, which a test compares. */
final class DirectArguments {
  static final int SEND_FLAT = 64;
  static final int RECV_FLAT = 72;
  static final int STRIDE = 80;
  static final int RESOURCES = 88;
  static final int FLAGS = 96;
  static final int EPOCH = 104;
  static final int LINES = 112;
  static final int LINE_BYTES = 120;
  static final int COUNTS = 128;
  static final int BYTES = 136;
  static final int OPERATION = 144;
  static final int OP = 148;
  static final int ROOT = 152;
  static final int TWO_SHOT = 156;
  static final int AWAITED = 160;
  static final int SIZE = 288;

  private DirectArguments() {}
}
