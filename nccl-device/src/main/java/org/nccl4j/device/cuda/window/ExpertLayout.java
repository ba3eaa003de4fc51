package org.nccl4j.device.cuda.window;

import org.nccl4j.device.kernel.ExpertSizes;

/**
 * Offsets of the parts of an exchange's window and of a rank's own memory. Those of the window are
 * the same on all ranks.
 */
final class ExpertLayout {
  /** NCCL4J_EXPERT_RANKS and NCCL4J_EXPERT_LOCAL of expert_layout.h. */
  static final int RANKS = 32;

  static final int LOCAL = 512;

  /** Bytes of nccl4jExpertState. */
  static final int STATE_BYTES = 96;

  /** Bytes of nccl4jExpertPlace. */
  static final int PLACE_BYTES = 8;

  private static final int ALIGNMENT = 128;

  /** Bytes of a line of a table, and its entries. */
  private static final int LINE_BYTES = 16;

  private static final int LINE_ENTRIES = 4;

  /** Bytes of a line of a token, of which so many are the token's. */
  private static final int TOKEN_LINE = 128;

  private static final int LINE_DATA = 7 * 16;

  final long dispatchFlags;
  final long combineFlags;
  final long beginFlags;
  final long tables;
  final long tableBytes;
  final long tokens;
  final long stagedRow;
  final long outputs;
  final long windowBytes;

  final long state;
  final long lists;
  final long listCapacity;
  final long places;
  final long keptExperts;
  final long keptWeights;
  final long keptCount;
  final long ownBytes;

  private long next;

  ExpertLayout(ExpertSizes sizes, int blocks) {
    long flags = (long) Long.BYTES * RANKS * blocks;
    tableBytes = aligned(LINE_BYTES * (1 + (sizes.entries() + LINE_ENTRIES - 1) / LINE_ENTRIES));
    stagedRow = (sizes.wireBytes() + LINE_DATA - 1) / LINE_DATA * TOKEN_LINE;
    dispatchFlags = take(flags);
    combineFlags = take(flags);
    beginFlags = take(flags);
    tables = take(2 * sizes.nRanks() * tableBytes);
    tokens = take(2L * sizes.nRanks() * sizes.maxTokens() * stagedRow);
    outputs = take(sizes.entries() * sizes.rowBytes());
    windowBytes = next;

    next = 0;
    int tokensOfBlock = (sizes.maxTokens() + blocks - 1) / blocks;
    listCapacity = (long) sizes.nRanks() * tokensOfBlock * sizes.topK();
    state = take((long) STATE_BYTES * blocks);
    lists = take(listCapacity * Long.BYTES * blocks);
    places = take(listCapacity * PLACE_BYTES * blocks);
    keptExperts = take(sizes.entries() * Integer.BYTES);
    keptWeights = take(sizes.entries() * Float.BYTES);
    keptCount = take(Integer.BYTES);
    ownBytes = next;
  }

  private long take(long bytes) {
    long at = next;
    next = aligned(at + bytes);
    return at;
  }

  private static long aligned(long bytes) {
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  }
}
