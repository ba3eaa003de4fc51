package org.nccl4j.device.cuda;

/**
 * Offsets and sizes of the structures in src/main/cuda/layout.h. A test compiles a probe of that
 * header and compares.
 */
final class KernelLayout {
  static final int INLINE_PEERS = 32;
  static final int INLINE_GROUPS = 32;
  static final int INLINE_WORKS = 64;
  static final int NONE = 255;
  static final int CLAIMING_CHANNELS = 32;

  static final int PEER_STEPS = 32;
  static final int PEER_BYTES = 40;
  static final int STEPS_BYTES = 64;
  static final int STEPS_CARRIED = 24;
  static final int STEPS_COPIES = 48;
  static final int COPIES = 104;
  static final int CALLS = 16;
  static final int MORE_CALLS = 96;

  static final int CONTROL_ABORT = 0;
  static final int CONTROL_FAILED = 64;
  static final int CONTROL_FAILED_PEER = 68;
  static final int CONTROL_FAILED_CHANNEL = 72;
  static final int CONTROL_FAILED_KIND = 76;
  static final int CONTROL_FAILED_STEP = 80;
  static final int CONTROL_WAITING = 88;
  static final int CONTROL_BYTES = 192;

  static final int CONTROL = 0;
  static final int BUDGET = 8;
  static final int RANK = 16;
  static final int N_RANKS = 20;
  static final int LL_SLOT = 24;
  static final int LL128_SLOT = 28;
  static final int SIMPLE_SLOT = 32;
  static final int USER = 36;
  static final int SIGNATURE = 40;
  static final int ALIKE = 44;

  /** Bits of the last: buffers that lie at the same place of all ranks' windows. */
  static final int ALIKE_SEND = 1;

  static final int ALIKE_RECV = 2;

  /** In the arguments of collectives and of sends and receives alike. */
  static final int SEND = 48;

  static final int RECV = 56;

  static final int BYTES = 64;
  static final int RING_RANKS = 72;
  static final int PEER_TABLE = 80;
  static final int COLLECTIVE = 88;
  static final int ALGORITHM = 92;
  static final int OPERATOR = 96;
  static final int ROOT = 100;
  static final int N_CHANNELS = 104;
  static final int SLICE_BYTES = 108;
  static final int RING_INDEX = 1392;
  static final int RING_PREV = 1456;
  static final int RING_NEXT = 1520;
  static final int TREE_UP = 1584;
  static final int TREE_DOWN0 = 1648;
  static final int TREE_DOWN1 = 1712;
  static final int CLAIMS = 1776;
  static final int WHOLE_ROUNDS = 1784;
  static final int SMALL_SLICES = 1788;
  static final int PEERS = 112;
  static final int SCALAR = 1792;
  static final int SCALAR_ADDRESS = 1800;
  static final int COLLECTIVE_BYTES = 1808;

  /** The operator of pre-multiplied sums, after those of RedOp. */
  static final int PREMUL = 5;

  static final int GROUPS = 64;
  static final int WORKS = 72;
  static final int N_GROUPS = 80;
  static final int INLINE_GROUP_TABLE = 88;
  static final int INLINE_WORK_TABLE = 1368;
  static final int P2P_BYTES = 3416;

  static final int GROUP_DATA = 0;
  static final int GROUP_CREDIT = 8;
  static final int GROUP_STEPS = 16;
  static final int GROUP_PEER = 24;
  static final int GROUP_KIND = 26;
  static final int GROUP_BLOCK_STEP = 27;
  static final int GROUP_FIRST_BLOCK = 28;
  static final int GROUP_N_BLOCKS = 30;
  static final int GROUP_FIRST_WORK = 32;
  static final int GROUP_N_WORKS = 36;
  static final int GROUP_BYTES = 40;

  static final int WORK_ADDRESS = 0;
  static final int WORK_TARGET = 8;
  static final int WORK_BYTES = 16;
  static final int WORK_BASE = 24;
  static final int WORK_TARGET_BASE = 25;
  static final int WORK_PROTOCOL = 26;
  static final int WORK_PARTS = 27;
  static final int WORK_OFFERED = 28;
  static final int WORK_SIGNATURE = 30;
  static final int WORK_SIZE = 32;

  static final int NO_OFFER = -1; // of 64 bits

  static final int COPY_WORD = 64;
  static final int COPY_COUNTER = 72;
  static final int COPY_NUMBER = 80;
  static final int COPY_PEER = 88;
  static final int COPY_KIND = 92;
  static final int COPY_BYTES = 96;

  static final int NVLS_HEADS = 32;
  static final int NVLS_STEPS_BYTES = 16;

  static final int NVLS_BYTES = 64;
  static final int NVLS_STEPS = 72;
  static final int NVLS_UNICAST = 80;
  static final int NVLS_COLLECTIVE = 88;
  static final int NVLS_OP = 92;
  static final int NVLS_N_CHANNELS = 96;
  static final int NVLS_CHUNK_BYTES = 100;
  static final int NVLS_SLOT_BYTES = 104;
  static final int NVLS_LAYOUT_CHANNELS = 108;
  static final int NVLS_N_HEADS = 112;
  static final int NVLS_HEAD_RANK = 116;
  static final int NVLS_VIEWS = 120;
  static final int NVLS_HEAD_RANKS = 376;
  static final int NVLS_ARGUMENTS_BYTES = 408;

  private KernelLayout() {}
}
