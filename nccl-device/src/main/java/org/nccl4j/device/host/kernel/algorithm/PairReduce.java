package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Copies;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.memory.StreamingCopy;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;

/**
 * Reduce of two ranks that reach each other's buffers: each combines one half of the data and
 * writes it to the root's buffer, so that both cores work. The ranks lend each other their whole
 * buffers first; where one does not reach the other's, the ring's kernel runs instead. Both combine
 * the root's data with the other rank's, in this order, as the ring does: the bits are the same.
 */
final class PairReduce implements Kernel {
  /** Bytes of a piece that goes through the scratch memory. */
  private static final int PIECE = 16 << 10;

  private final Kernel otherwise;
  private final Pair pair;
  private final Reduction reduction;
  private final int elementBytes;
  private final long bytes;
  private final boolean isRoot;

  /** True if the outcome leaves the caches before anybody reads it. */
  private final boolean leaves;

  private final HostMemory scratch;
  private final StreamingCopy streaming = StreamingCopy.open();

  /**
   * A kernel.
   *
   * @param otherwise what runs where a rank does not reach the other's buffers
   */
  PairReduce(KernelContext context, CollectiveWork work, Kernel otherwise) {
    this.otherwise = otherwise;
    this.pair = new Pair(context, work);
    this.reduction = context.reduction(work);
    this.elementBytes = work.type().bytes();
    this.bytes = KernelContext.bytes(work);
    this.isRoot = context.spec.rank() == work.root();
    this.leaves = context.leaves(work);
    this.scratch = context.scratch;
  }

  /** True for reduces of two ranks of a host that are not small; the same on both ranks. */
  static boolean suits(KernelContext context, CollectiveWork work) {
    return Pair.suits(context, work, SingleCopy.LEAST_BYTES)
        && !context.reduction(work).hasPrepare();
  }

  @Override
  @HotPath
  public void run(HostMemory send, HostMemory recv) {
    long half = Pair.half(bytes);
    long others = isRoot ? bytes - half : half;
    boolean both = pair.exchange(/* lends= */ true, send, isRoot ? recv : null, others);
    if (both && isRoot) {
      combine(send, 0, pair.source(), pair.sourceOffset(), recv, 0, 0, half);
    } else if (both) {
      HostMemory target = pair.target();
      long targetOffset = pair.targetOffset();
      combine(pair.source(), pair.sourceOffset(), send, 0, target, targetOffset, half, bytes);
    }
    pair.release();
    if (!both) {
      otherwise.run(send, recv);
    }
  }

  /** Combines a range of two buffers into the same range of a third. */
  private void combine(
      HostMemory a,
      long aOffset,
      HostMemory b,
      long bOffset,
      HostMemory target,
      long targetOffset,
      long begin,
      long end) {
    boolean staged = leaves && a.address() + aOffset != target.address() + targetOffset;
    int most = staged ? PIECE : Pair.PIECE;
    for (long at = begin; at < end; at += most) {
      int piece = (int) Math.min(most, end - at);
      int count = piece / elementBytes;
      HostMemory to = staged ? scratch : target;
      long toOffset = staged ? 0 : targetOffset + at;
      reduction.reduce(a, aOffset + at, b, bOffset + at, to, toOffset, count);
      if (reduction.hasFinish()) {
        reduction.finish(to, toOffset, count);
      }
      if (staged) {
        Copies.stream(streaming, scratch, 0, target, targetOffset + at, piece);
      }
      pair.check();
    }
  }
}
