package org.nccl4j.device.host.reduce;

import java.nio.ByteBuffer;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.bind.NativeMemory;
import org.nccl4j.device.host.memory.HostMemory;

/**
 * Takes blocks of elements into two arrays, left and right, combines them there and puts them back.
 * The JIT compiler vectorises loops over arrays, and none over byte buffers. Sums are made on the
 * memories themselves where there are addresses: a few one by one, more by {@link VectorSum}.
 *
 * <p>Owned by one thread at a time.
 */
abstract class StagedReduction implements Reduction {
  /** Bytes of a block: the arrays stay in the first-level cache. */
  static final int BLOCK_BYTES = 8192;

  private static final boolean ADDRESSES = NativeMemory.hasAddresses();

  /** Up to so many elements are combined one by one, for types without conversions. */
  static final int FEW = 32;

  /**
   * Loops over blocks go over this many bytes at least, of which the last are stale: C2 does not
   * vectorise a loop that it has seen end early most of the time.
   */
  private static final int LEAST_BYTES = 512;

  final RedOp op;
  final int ranks;

  /** True if the operator is the usual one, for which loops are compiled without a switch. */
  final boolean adds;

  private final int shift;

  /** True if a rank's own elements are divided by the number of ranks before they are added. */
  final boolean prepares;

  private final int block;
  private final int few;

  /** Elements of {@link #LEAST_BYTES}. */
  final int least;

  private final boolean finishes;

  /** Type whose elements {@link #sum} adds; null if it adds none. */
  private DataType summed;

  /** Null before the first reduction that is long enough for it. */
  private VectorSum sum;

  StagedReduction(DataType type, RedOp op, int ranks) {
    this(type, op, ranks, BLOCK_BYTES, FEW);
  }

  StagedReduction(DataType type, RedOp op, int ranks, int blockBytes, int few) {
    this.op = op;
    this.ranks = ranks;
    this.adds = op == RedOp.SUM || op == RedOp.AVG;
    this.shift = Integer.numberOfTrailingZeros(type.bytes());
    this.block = blockBytes >> shift;
    this.few = few;
    this.least = LEAST_BYTES >> shift;
    boolean averages = op == RedOp.AVG && ranks > 1;
    this.prepares = averages && type.isFloatingPoint();
    this.finishes = averages && !type.isFloatingPoint();
    this.summed = adds && VectorSum.has(type) ? type : null;
  }

  /** A few elements of a window = those of one op those of another, one by one. */
  abstract void combineFew(
      ByteBuffer a, int aIndex, ByteBuffer b, int bIndex, ByteBuffer to, int toIndex, int count);

  /**
   * A few elements at an address = the sums of those at two others, one by one. Only of types that
   * {@link VectorSum} has, and where memory has addresses: a byte buffer checks each access.
   */
  void addFew(long a, long b, long to, int bytes) {
    throw new IllegalStateException("sums of this type are not those of its bits");
  }

  /** A few elements of a window = those of another / ranks, one by one. */
  abstract void divideFew(ByteBuffer from, int fromIndex, ByteBuffer to, int toIndex, int count);

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
    if (summed == null) {
      reduceStaged(a, aOffset, b, bOffset, target, targetOffset, count);
      return;
    }
    int added = addVectors(a, aOffset, b, bOffset, target, targetOffset, count << shift);
    int rest = count - (added >> shift);
    if (rest == 0) {
      return;
    }
    long aAt = aOffset + added;
    long bAt = bOffset + added;
    long at = targetOffset + added;
    if (rest <= few && ADDRESSES) {
      addFew(a.address() + aAt, b.address() + bAt, target.address() + at, rest << shift);
    } else {
      reduceStaged(a, aAt, b, bAt, target, at, rest);
    }
  }

  /** From now on adds as where there are no addresses; for tests. */
  final void addThroughArrays() {
    summed = null;
  }

  /** Adds as many of the bytes as vector instructions can; returns how many. */
  @HotPath
  private int addVectors(
      HostMemory a,
      long aOffset,
      HostMemory b,
      long bOffset,
      HostMemory target,
      long targetOffset,
      int bytes) {
    if (summed == null || bytes < VectorSum.LEAST_BYTES) {
      return 0;
    }
    if (sum == null) {
      sum = VectorSum.of(summed);
    }
    if (!sum.isAvailable()) {
      return 0;
    }
    int whole = bytes & -VectorSum.STEP;
    sum.add(a, aOffset, b, bOffset, target, targetOffset, whole);
    return whole;
  }

  @HotPath
  private void reduceStaged(
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
    if (count <= few) {
      combineFew(left, leftIndex, right, rightIndex, result, resultIndex, count);
      return;
    }
    for (int done = 0; done < count; done += block) {
      int some = Math.min(block, count - done);
      int bytes = done << shift;
      loadLeft(left, leftIndex + bytes, some);
      loadRight(right, rightIndex + bytes, some);
      combine(Math.max(some, least));
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
    if (count <= few) {
      divideFew(from, fromIndex, to, toIndex, count);
      return;
    }
    for (int done = 0; done < count; done += block) {
      int some = Math.min(block, count - done);
      int bytes = done << shift;
      loadLeft(from, fromIndex + bytes, some);
      divide(Math.max(some, least));
      store(to, toIndex + bytes, some);
    }
  }
}
