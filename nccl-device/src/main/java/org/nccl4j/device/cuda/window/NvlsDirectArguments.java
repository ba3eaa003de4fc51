package org.nccl4j.device.cuda.window;

/**
 * Offsets in nccl4jNvlsDirectArguments of src/main/cuda/nvls_direct_layout.h, which a test
 * compares; before them lie {@link DirectArguments}.
 */
public final class NvlsDirectArguments {
  public static final int SEND_MULTICAST = 160;
  public static final int RECV_MULTICAST = 168;
  public static final int RESOURCES_MULTICAST = 176;
  public static final int N_HEADS = 184;
  public static final int HEAD_RANK = 188;
  public static final int SIZE = 192;

  private NvlsDirectArguments() {}
}
