package org.nccl4j.device.cuda.plan;

/**
 * Offsets and sizes of the structures in src/main/cuda/nvls_tree_layout.h, which a test compares;
 * the arguments begin with those of NVLS ({@link KernelLayout}).
 */
public final class NvlsTreeArguments {
  public static final int N_MEMBERS = 440;
  public static final int MEMBER = 444;
  public static final int MEMBER_RANKS = 448;
  public static final int TREES = 512;
  public static final int SIZE = 784;

  /** Trees, and in each a parent and children. */
  public static final int N_TREES = 2;

  public static final int ENDS = 3;

  /** In a tree: the connections of each end, and its rank. */
  public static final int TREE_ENDS = 0;

  public static final int TREE_RANKS = 120;
  public static final int TREE_BYTES = 136;

  private NvlsTreeArguments() {}
}
