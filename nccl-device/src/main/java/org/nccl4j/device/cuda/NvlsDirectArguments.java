package org.nccl4j.device.cuda;

/**
 * Offsets in nccl4jNvlsDirectArguments of src/main/cuda/nvls_direct_layout.h, which a test
 * compares; before them lie {@link DirectArguments}.
 */
final class NvlsDirectArguments {
  static final int SEND_MULTICAST = 288;
  static final int RECV_MULTICAST = 296;
  static final int RESOURCES_MULTICAST = 304;
  static final int N_HEADS = 312;
  static final int HEAD_RANK = 316;
  static final int SIZE = 320;

  private NvlsDirectArguments() {}
}
