package org.nccl4j.device.host.reduce;

import java.nio.ByteBuffer;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.host.memory.HostMemory;

/**
 * Takes blocks of elements into two arrays, left and right, combines them there and puts them back.
 * The JIT compiler vectorises loops over arrays, and none over byte buffers.
 *
 * <p>Owned by one thread at a time.
 */
abstract class StagedReduction implements Reduction {
  /** Bytes of a block: the arrays stay in the first-level cache. */
  static final int BLOCK_BYTES = 8192;

  /** Up to so many elements are moved one by one, which is faster than a bulk move. */
  static final int FEW = 16;

  final RedOp op;
  final int ranks;
  private final int shift;
  private final int block;
  private final boolean prepares;
  private final boolean finishes;

  StagedReduction(DataType type, RedOp op, int ranks) {
    this.op = op;
    this.ranks = ranks;
    this.shift = Integer.numberOfTrailingZeros(type.bytes());
    this.block = BLOCK_BYTES >> shift;
    boolean averages = op == RedOp.AVG && ranks > 1;
    this.prepares = averages && type.isFloatingPoint();
    this.finishes = averages && !type.isFloatingPoint();
  }

  /** left = elements of a window. */
  abstract void loadLeft(ByteBuffer window, int index, int count);

  /** right = elements of a window. */
  abstract void loadRight(ByteBuffer window, int index, int count);

  /** Elements of a window = left. */
  abstract void store(ByteBuffer window, int index, int count);

  /** left = left op right. */
  abstract void combine(int count);

  /** left = left / ranks; floating point: rounded once, to nearest; integers: towards zero. */
  abstract void divide(int count);

  @Override
  @HotPath
  public final void reduce(
      HostMemory a,
      long aOffset,
      HostMemory b,
      long bOffset,
      HostMemory target,
      long targetOffset,
      int count) {
    ByteBuffer left = a.window(aOffset);
    ByteBuffer right = b.window(bOffset);
    ByteBuffer result = target.window(targetOffset);
    int leftIndex = a.index(aOffset);
    int rightIndex = b.index(bOffset);
    int resultIndex = target.index(targetOffset);
    for (int done = 0; done < count; done += block) {
      int some = Math.min(block, count - done);
      int bytes = done << shift;
      loadLeft(left, leftIndex + bytes, some);
      loadRight(right, rightIndex + bytes, some);
      combine(some);
      store(result, resultIndex + bytes, some);
    }
  }

  @Override
  public final boolean hasPrepare() {
    return prepares;
  }

  @Override
  @HotPath
  public final void prepare(
      HostMemory source, long sourceOffset, HostMemory target, long targetOffset, int count) {
    ByteBuffer from = source.window(sourceOffset);
    ByteBuffer to = target.window(targetOffset);
    int fromIndex = source.index(sourceOffset);
    int toIndex = target.index(targetOffset);
    if (prepares) {
      divide(from, fromIndex, to, toIndex, count);
    } else {
      to.put(toIndex, from, fromIndex, count << shift);
    }
  }

  @Override
  public final boolean hasFinish() {
    return finishes;
  }

  @Override
  @HotPath
  public final void finish(HostMemory data, long offset, int count) {
    if (finishes) {
      ByteBuffer window = data.window(offset);
      int index = data.index(offset);
      divide(window, index, window, index, count);
    }
  }

  @HotPath
  private void divide(ByteBuffer from, int fromIndex, ByteBuffer to, int toIndex, int count) {
    for (int done = 0; done < count; done += block) {
      int some = Math.min(block, count - done);
      int bytes = done << shift;
      loadLeft(from, fromIndex + bytes, some);
      divide(some);
      store(to, toIndex + bytes, some);
    }
  }
}
