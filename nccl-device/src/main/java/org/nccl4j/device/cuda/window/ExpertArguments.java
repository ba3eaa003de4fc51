package org.nccl4j.device.cuda.window;

/** Offsets in nccl4jExpertArguments of src/main/cuda/expert_layout.h, which a test compares. */
final class ExpertArguments {
  static final int EXPERTS = 64;
  static final int WEIGHTS = 72;
  static final int WINDOW = 80;
  static final int STRIDE = 88;
  static final int DISPATCH_FLAGS = 96;
  static final int COMBINE_FLAGS = 104;
  static final int BEGIN_FLAGS = 112;
  static final int MESSAGES = 120;
  static final int MESSAGE_BYTES = 128;
  static final int TOKENS = 136;
  static final int STAGED_ROW = 144;
  static final int OUTPUTS = 152;
  static final int STATE = 160;
  static final int LISTS = 168;
  static final int LIST_CAPACITY = 176;
  static final int PLACES = 184;
  static final int KEPT_EXPERTS = 192;
  static final int KEPT_WEIGHTS = 200;
  static final int KEPT_COUNT = 208;
  static final int RECEIVED = 216;
  static final int SCALES = 224;
  static final int COUNTS = 232;
  static final int OFFSETS = 240;
  static final int ROWS = 248;
  static final int SENT_ROWS = 256;
  static final int ROW_BYTES = 264;
  static final int WIRE_ROW = 268;
  static final int HIDDEN = 272;
  static final int MAX_TOKENS = 276;
  static final int BLOCK_TOKENS = 280;
  static final int TOP_K = 284;
  static final int N_EXPERTS = 288;
  static final int LOCAL_EXPERTS = 292;
  static final int COUNTS_OF_LINE = 296;
  static final int TOKEN_COUNT = 300;
  static final int WHOLE_LINES = 304;
  static final int PARTS = 308;
  static final int PACE = 312;
  static final int RESULT_ROWS = 316;
  static final int SIZE = 320;

  private ExpertArguments() {}
}
