package org.nccl4j.device.cuda;

/**
 * Offsets in nccl4jBesideArguments of src/main/cuda/direct_layout.h, which a test compares; before
 * them lie {@link DirectArguments}.
 */
final class BesideArguments {
  static final int ENGINE = 288;
  static final int ENGINE_BYTES = 296;
  static final int CHUNK = 304;
  static final int NUMBER = 312;
  static final int PHASES = 316;
  static final int MOVERS = 320;
  static final int SIZE = 328;

  private BesideArguments() {}
}
