package org.nccl4j.device.cuda.copy;

/**
 * Offsets in nccl4jBesideArguments of src/main/cuda/direct_layout.h, which a test compares; before
 * them lie {@code DirectArguments}.
 */
public final class BesideArguments {
  public static final int ENGINE = 288;
  public static final int ENGINE_BYTES = 296;
  public static final int CHUNK = 304;
  public static final int MOST = 312;
  public static final int HEAD = 320;
  public static final int UNIT = 328;
  public static final int NUMBER = 336;
  public static final int PHASES = 340;
  public static final int MOVERS = 344;
  public static final int GIVES = 348;
  public static final int SIZE = 352;

  private BesideArguments() {}
}
