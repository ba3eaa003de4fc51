package org.nccl4j.device.host.reduce;

import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;

/** float8, by looking up the results of all pairs. */
final class Float8Reduction extends ByteReduction {
  /** Look-ups are not vectorised, so that a block is worth its while later. */
  private static final int FEW_LOOKUPS = 128;

  private final byte[] results;
  private final byte[] quotients;

  Float8Reduction(DataType type, RedOp op, int ranks) {
    super(type, op, ranks, FEW_LOOKUPS);
    this.results = Float8Tables.pairs(type, op);
    this.quotients = hasPrepare() ? Float8Tables.quotients(type, ranks) : null;
  }

  @Override
  @HotPath
  byte one(byte a, byte b) {
    return results[(a & 0xff) << 8 | (b & 0xff)];
  }

  @Override
  @HotPath
  byte quotient(byte a) {
    return quotients[a & 0xff];
  }

  @Override
  @HotPath
  void combine(int count) {
    for (int i = 0; i < count; i++) {
      left[i] = one(left[i], right[i]);
    }
  }

  @Override
  @HotPath
  void divide(int count) {
    for (int i = 0; i < count; i++) {
      left[i] = quotient(left[i]);
    }
  }
}
