package org.nccl4j.device.cuda.copy;

/**
 * Offsets in nccl4jBesideArguments of src/main/cuda/direct_layout.h, which a test compares; before
 * them lie {@code DirectArguments}.
 */
public final class BesideArguments {
  public static final int ENGINE = 160;
  public static final int ENGINE_BYTES = 168;
  public static final int CHUNK = 176;
  public static final int MOST = 184;
  public static final int HEAD = 192;
  public static final int UNIT = 200;
  public static final int NUMBER = 208;
  public static final int PHASES = 212;
  public static final int MOVERS = 216;
  public static final int GIVES = 220;
  public static final int SIZE = 224;

  private BesideArguments() {}
}
