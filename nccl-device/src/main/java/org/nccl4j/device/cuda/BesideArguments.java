package org.nccl4j.device.cuda;

/**
 * Offsets in nccl4jBesideArguments of src/main/cuda/direct_layout.h, which a test compares; before
 * them lie {@link DirectArguments}.
 */
final class BesideArguments {
  static final int ENGINE = 288;
  static final int ENGINE_BYTES = 296;
  static final int CHUNK = 304;
  static final int HEAD = 312;
  static final int UNIT = 320;
  static final int NUMBER = 328;
  static final int PHASES = 332;
  static final int MOVERS = 336;
  static final int SIZE = 344;

  private BesideArguments() {}
}
