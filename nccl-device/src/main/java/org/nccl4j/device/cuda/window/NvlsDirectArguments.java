package org.nccl4j.device.cuda.window;

/**
 * Offsets in nccl4jNvlsDirectArguments of src/main/cuda/nvls_direct_layout.h, which a test
 * compares; before them lie {@link DirectArguments}.
 */
public final class NvlsDirectArguments {
  public static final int SEND_MULTICAST = 288;
  public static final int RECV_MULTICAST = 296;
  public static final int RESOURCES_MULTICAST = 304;
  public static final int N_HEADS = 312;
  public static final int HEAD_RANK = 316;
  public static final int SIZE = 320;

  private NvlsDirectArguments() {}
}
