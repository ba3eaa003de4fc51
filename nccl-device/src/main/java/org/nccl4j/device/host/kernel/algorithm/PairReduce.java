package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Copies;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;

/**
 * Reduce of two ranks that reach each other's buffers: each combines one half of the data and
 * writes it to the root's buffer, so that both cores work. Both combine the root's data with the
 * other rank's, in this order, as the ring does: the bits are the same.
 */
final class PairReduce extends Pair {
  /** Bytes of a piece that goes through the scratch memory. */
  private static final int STAGED_PIECE = 16 << 10;

  private final Reduction reduction;
  private final int elementBytes;
  private final HostMemory scratch;

  PairReduce(KernelContext context, CollectiveWork work, Kernel otherwise) {
    super(context, work, otherwise);
    this.reduction = context.reduction(work);
    this.elementBytes = work.type().bytes();
    this.scratch = context.scratch;
  }

  /** True for reduces of two ranks of a host that are not small; the same on both ranks. */
  static boolean suits(KernelContext context, CollectiveWork work) {
    return suits(context, work, SingleCopy.LEAST_BYTES) && !context.reduction(work).hasPrepare();
  }

  @Override
  @HotPath
  boolean expose(HostMemory send, HostMemory recv, long half) {
    return isRoot ? offer(send, recv, bytes - half) : offer(send, null, half);
  }

  @Override
  @HotPath
  void work(HostMemory send, HostMemory recv, long half) {
    if (isRoot) {
      combine(send, 0, source(), sourceOffset(), recv, 0, 0, half);
    } else {
      combine(source(), sourceOffset(), send, 0, target(), targetOffset(), half, bytes);
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
    int most = staged ? STAGED_PIECE : PIECE;
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
      check();
    }
  }
}
