package org.nccl4j.device.cuda.window;

import org.nccl4j.device.kernel.ExpertSizes;

/**
 * Offsets of the parts of an exchange's window and of a rank's own memory. Those of the window are
 * the same on all ranks.
 */
final class ExpertLayout {
  /** NCCL4J_EXPERT_RANKS, _LOCAL, _CELLS and _ENTRIES of expert_layout.h. */
  static final int RANKS = 32;

  static final int LOCAL = 512;
  static final int EXPERTS = 8192;
  static final int ENTRIES = (1 << 23) - 1;

  /** Bytes of nccl4jExpertState. */
  static final int STATE_BYTES = 96;

  /** Bytes of a line of a message, those that are data, and its places of entries. */
  private static final int LINE_BYTES = 16;

  private static final int LINE_WORD = 8;
  private static final int LINE_PLACES = 2;

  /** Bytes of a line of a token, of which so many are the token's. */
  private static final int TOKEN_LINE = 128;

  private static final int LINE_DATA = 7 * 16;

  final long dispatchFlags;
  final long combineFlags;
  final long beginFlags;
  final long messages;
  final long messageBytes;
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

  /** The most tokens of a block of each rank. */
  final int blockTokens;

  /** Numbers of entries in a line of a message. */
  final int countsOfLine;

  private long next;

  ExpertLayout(ExpertSizes sizes, int blocks) {
    long flags = (long) Long.BYTES * RANKS * blocks;
    blockTokens = ceiling(sizes.maxTokens(), blocks);
    countsOfLine = LINE_WORD / (sizes.entries() < 1 << Short.SIZE ? Short.BYTES : Integer.BYTES);
    int countLines = ceiling(sizes.localExperts(), countsOfLine);
    long placeLines = (long) blockTokens * ceiling(sizes.topK(), LINE_PLACES);
    messageBytes = PartAlignment.aligned(LINE_BYTES * (1 + countLines + placeLines));
    stagedRow = (sizes.wireBytes() + LINE_DATA - 1) / LINE_DATA * TOKEN_LINE;
    dispatchFlags = take(flags);
    combineFlags = take(flags);
    beginFlags = take(flags);
    messages = take(2L * sizes.nRanks() * blocks * messageBytes);
    tokens = take(2L * sizes.nRanks() * sizes.maxTokens() * stagedRow);
    outputs = take(sizes.entries() * sizes.rowBytes());
    windowBytes = next;

    next = 0;
    listCapacity = (long) sizes.nRanks() * blockTokens * sizes.topK();
    state = take((long) STATE_BYTES * blocks);
    lists = take(listCapacity * Long.BYTES * blocks);
    places = take(listCapacity * Integer.BYTES * blocks);
    keptExperts = take(sizes.entries() * Integer.BYTES);
    keptWeights = take(sizes.entries() * Float.BYTES);
    keptCount = take(Integer.BYTES);
    ownBytes = next;
  }

  private long take(long bytes) {
    long at = next;
    next = PartAlignment.aligned(at + bytes);
    return at;
  }

  private static int ceiling(int dividend, int divisor) {
    return (dividend + divisor - 1) / divisor;
  }
}
