package org.nccl4j.device.cuda;

/**
 * Offsets and sizes of the structures in src/main/cuda/nvls_tree_layout.h, which a test compares;
 * the arguments begin with those of NVLS ({@link KernelLayout}).
 */
final class NvlsTreeArguments {
  static final int N_MEMBERS = 408;
  static final int MEMBER = 412;
  static final int MEMBER_RANKS = 416;
  static final int TREES = 448;
  static final int SIZE = 720;

  /** Trees, and in each a parent and children. */
  static final int N_TREES = 2;

  static final int ENDS = 3;

  /** In a tree: the connections of each end, and its rank. */
  static final int TREE_ENDS = 0;

  static final int TREE_RANKS = 120;
  static final int TREE_BYTES = 136;

  private NvlsTreeArguments() {}
}
