package org.nccl4j.device.cuda.window;

/** Offsets in nccl4jRaggedArguments of src/main/cuda/ragged_layout.h, which a test compares. */
final class RaggedArguments {
  static final int COUNTS = 64;
  static final int SEND_ELEMENTS = 72;
  static final int WINDOW = 80;
  static final int STRIDE = 88;
  static final int COUNTED = 96;
  static final int LINES = 104;
  static final int LINE_BYTES = 112;
  static final int FLAGS = 120;
  static final int RECEIVED = 128;
  static final int CALLS = 136;
  static final int RECEIVED_COUNTS = 144;
  static final int RECEIVED_OFFSETS = 152;
  static final int MAX_COUNT = 160;
  static final int MAX_RECEIVED = 168;
  static final int ELEMENT_BYTES = 176;
  static final int WIDE = 180;
  static final int GATHERS = 184;
  static final int KEEPS_COUNTS = 188;
  static final int COMBINES = 192;
  static final int SIGNATURE = 196;
  static final int SIZE = 200;

  private RaggedArguments() {}
}
