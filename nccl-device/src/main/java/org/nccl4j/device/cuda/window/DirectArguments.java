package org.nccl4j.device.cuda.window;

/** Offsets in nccl4jDirectArguments of src/main/cuda/direct_layout.h, which a test compares. */
public final class DirectArguments {
  public static final int SEND_FLAT = 64;
  public static final int RECV_FLAT = 72;
  public static final int STRIDE = 80;
  public static final int RESOURCES = 88;
  public static final int FLAGS = 96;
  public static final int EPOCH = 104;
  public static final int LINES = 112;
  public static final int LINE_BYTES = 120;
  public static final int COUNTS = 128;
  public static final int BYTES = 136;
  public static final int OPERATION = 144;
  public static final int OP = 148;
  public static final int ROOT = 152;
  public static final int TWO_SHOT = 156;
  public static final int SIZE = 160;

  private DirectArguments() {}
}
