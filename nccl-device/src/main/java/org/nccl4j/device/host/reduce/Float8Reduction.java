package org.nccl4j.device.host.reduce;

import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.numeric.ByteFormat;
import org.nccl4j.device.numeric.FloatFormat;

/** float8. Pairs by looking up their results, more operands by adding floats. */
final class Float8Reduction extends ByteReduction {
  /** Look-ups are not vectorised, so that a block is worth its while later. */
  private static final int FEW_LOOKUPS = 128;

  private static final int WIDE_BLOCK = 2048;

  private final ByteFormat format;
  private final byte[] results;
  private final byte[] quotients;

  /** Each number, and its quotient, as a float. */
  private final float[] wide;

  private final float[] wideQuotients;
  private final float[] sums = new float[WIDE_BLOCK];

  Float8Reduction(DataType type, RedOp op, int ranks) {
    super(type, op, ranks, FEW_LOOKUPS);
    this.format = (ByteFormat) FloatFormat.of(type);
    this.results = Float8Tables.pairs(type, op);
    this.quotients = hasPrepare() ? Float8Tables.quotients(type, ranks) : null;
    this.wide = Float8Tables.wide(type, 1);
    this.wideQuotients = hasPrepare() ? Float8Tables.wide(type, ranks) : null;
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
  public boolean widens() {
    return adds || op == RedOp.PROD;
  }

  @Override
  @HotPath
  public void reduceAll(Operands operands, HostMemory target, long targetOffset, int count) {
    if (operands.isPair()) {
      reduce(
          operands.memory(0),
          operands.offset(0),
          operands.memory(1),
          operands.offset(1),
          target,
          targetOffset,
          count);
      return;
    }
    for (int done = 0; done < count; done += WIDE_BLOCK) {
      int some = Math.min(WIDE_BLOCK, count - done);
      for (int i = 0; i < operands.size(); i++) {
        loadRight(operands.window(i, done), operands.index(i, done), some);
        take(hasPrepare() && operands.isUnprepared(i) ? wideQuotients : wide, some, i == 0);
      }
      format.narrow(sums, left, some);
      long to = targetOffset + done;
      store(target.window(to), target.index(to), some);
    }
  }

  /** Combines right with the sums. */
  @HotPath
  private void take(float[] table, int count, boolean isFirst) {
    if (isFirst) {
      for (int i = 0; i < count; i++) {
        sums[i] = table[right[i] & 0xff];
      }
    } else if (adds) {
      for (int i = 0; i < count; i++) {
        sums[i] += table[right[i] & 0xff];
      }
    } else {
      for (int i = 0; i < count; i++) {
        sums[i] *= table[right[i] & 0xff];
      }
    }
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
