package org.nccl4j.device.cuda.plan;

/**
 * Offsets and sizes of the structures in src/main/cuda/layout.h. A test compiles a probe of that
 * header and compares.
 */
public final class KernelLayout {
  public static final int INLINE_PEERS = 32;
  public static final int INLINE_GROUPS = 32;
  public static final int INLINE_WORKS = 64;

  /** In place of a rank, which is below it. */
  public static final int NONE = 65535;

  /** Bytes of a rank in a table. */
  static final int RANK_BYTES = 2;

  /** The fewest channels that claim rounds, where nothing is carried. */
  public static final int CLAIMING_CHANNELS = 32;

  public static final int UNTOLD_STEPS = 2;

  /** Threads of a block: of Simple, sends and receives. */
  static final int SIMPLE_THREADS = 576;

  /** Of LL and LL128. */
  static final int FLAGGED_THREADS = 512;

  /** Of NVLS within a machine. */
  static final int NVLS_THREADS = 640;

  public static final int PEER_STEPS = 32;
  public static final int PEER_BYTES = 40;
  public static final int STEPS_BYTES = 64;
  public static final int STEPS_CARRIED = 24;
  public static final int STEPS_COPIES = 48;
  public static final int COPIES = 104;
  public static final int CALLS = 16;
  public static final int MORE_CALLS = 96;

  public static final int CONTROL_ABORT = 0;
  public static final int CONTROL_FAILED = 64;
  public static final int CONTROL_FAILED_PEER = 68;
  public static final int CONTROL_FAILED_CHANNEL = 72;
  public static final int CONTROL_FAILED_KIND = 76;
  public static final int CONTROL_FAILED_STEP = 80;
  public static final int CONTROL_WAITING = 88;
  public static final int CONTROL_BYTES = 192;

  public static final int CONTROL = 0;
  public static final int BUDGET = 8;
  public static final int RANK = 16;
  public static final int N_RANKS = 20;
  public static final int LL_SLOT = 24;
  public static final int LL128_SLOT = 28;
  public static final int SIMPLE_SLOT = 32;
  public static final int USER = 36;
  public static final int SIGNATURE = 40;
  public static final int FLAGS = 44;

  /** Bits of the last: buffers that lie at the same place of all ranks' windows. */
  public static final int ALIKE_SEND = 1;

  public static final int ALIKE_RECV = 2;

  /** When the blocks of the next kernel may start: at this kernel's begin. */
  public static final int ADMITS_AT_ONCE = 4;

  /** The same: when every block of this kernel has met those of the other ranks. */
  public static final int ADMITS_WHEN_MET = 8;

  /** In the arguments of collectives and of sends and receives alike. */
  public static final int SEND = 48;

  public static final int RECV = 56;

  public static final int BYTES = 64;
  public static final int RING_RANKS = 72;
  public static final int PEER_TABLE = 80;
  public static final int COLLECTIVE = 88;
  public static final int ALGORITHM = 92;
  public static final int OPERATOR = 96;
  public static final int ROOT = 100;
  public static final int N_CHANNELS = 104;
  public static final int SLICE_BYTES = 108;
  public static final int FIRST_CHANNEL = 112;
  public static final int HOST_RANKS = 116;
  public static final int RING_INDEX = 1400;
  public static final int RING_PREV = 1528;
  public static final int RING_NEXT = 1656;
  public static final int TREE_UP = 1784;
  public static final int TREE_DOWN = 1912;
  public static final int TREE_CHILDREN = 4;
  public static final int CLAIMS = 2424;
  public static final int WHOLE_ROUNDS = 2432;
  public static final int SMALL_SLICES = 2436;
  public static final int PEERS = 120;
  public static final int SCALAR = 2440;
  public static final int SCALAR_ADDRESS = 2448;
  public static final int COLLECTIVE_BYTES = 2456;

  /** The operator of pre-multiplied sums, after those of RedOp. */
  public static final int PREMUL = 5;

  public static final int GROUPS = 64;
  public static final int WORKS = 72;
  public static final int N_GROUPS = 80;
  public static final int INLINE_GROUP_TABLE = 88;
  public static final int INLINE_WORK_TABLE = 1368;
  public static final int EXPOSED = 3416;
  public static final int P2P_BYTES = 3480;

  /** Works of which the arguments tell whether they use their buffers themselves. */
  public static final int EXPOSED_WORKS = 512;

  public static final int GROUP_DATA = 0;
  public static final int GROUP_CREDIT = 8;
  public static final int GROUP_STEPS = 16;
  public static final int GROUP_PEER = 24;
  public static final int GROUP_KIND = 26;
  public static final int GROUP_BLOCK_STEP = 27;
  public static final int GROUP_FIRST_BLOCK = 28;
  public static final int GROUP_N_BLOCKS = 30;
  public static final int GROUP_FIRST_WORK = 32;
  public static final int GROUP_N_WORKS = 36;
  public static final int GROUP_BYTES = 40;

  public static final int WORK_ADDRESS = 0;
  public static final int WORK_TARGET = 8;
  public static final int WORK_BYTES = 16;
  public static final int WORK_BASE = 24;
  public static final int WORK_TARGET_BASE = 25;
  public static final int WORK_PROTOCOL = 26;
  public static final int WORK_PARTS = 27;
  public static final int WORK_OFFERED = 28;
  public static final int WORK_SIGNATURE = 30;
  public static final int WORK_SIZE = 32;

  public static final int NO_OFFER = -1; // of 64 bits

  public static final int COPY_WORD = 64;
  public static final int COPY_COUNTER = 72;
  public static final int COPY_NUMBER = 80;
  public static final int COPY_PEER = 88;
  public static final int COPY_KIND = 92;
  public static final int COPY_BYTES = 96;

  public static final int NVLS_HEADS = 32;
  public static final int NVLS_STEPS_BYTES = 16;

  public static final int NVLS_BYTES = 64;
  public static final int NVLS_STEPS = 72;
  public static final int NVLS_UNICAST = 80;
  public static final int NVLS_COLLECTIVE = 88;
  public static final int NVLS_OP = 92;
  public static final int NVLS_N_CHANNELS = 96;
  public static final int NVLS_CHUNK_BYTES = 100;
  public static final int NVLS_SLOT_BYTES = 104;
  public static final int NVLS_LAYOUT_CHANNELS = 108;
  public static final int NVLS_N_HEADS = 112;
  public static final int NVLS_HEAD_RANK = 116;
  public static final int NVLS_VIEWS = 120;
  public static final int NVLS_HEAD_RANKS = 376;
  public static final int NVLS_ARGUMENTS_BYTES = 440;

  private KernelLayout() {}
}
