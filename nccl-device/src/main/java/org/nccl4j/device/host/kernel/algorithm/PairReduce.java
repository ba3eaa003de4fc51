package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.BufferCopies;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicatorSpec.SingleCopy;
import org.nccl4j.operation.Operation;

/**
 * Reduce and all-reduce of two ranks that reach each other's buffers: each combines one half of the
 * data and writes it to the root's buffer, or to both, so that both cores work. Nobody else touches
 * that half, so it works in place. Both combine the root's data with the other rank's, in this
 * order, as the other algorithms do; an all-reduce has rank 0 for a root. The bits are the same.
 */
final class PairReduce extends Pair {
  /** Bytes of a piece that goes through the scratch memory. */
  private static final int STAGED_PIECE = 16 << 10;

  /** Bytes of a piece that is still in the core's own cache when it is copied to the peer. */
  private static final int COPIED_PIECE = 16 << 10;

  private final Reduction reduction;
  private final int elementBytes;
  private final HostMemory scratch;

  /** True for an all-reduce. */
  private final boolean toBoth;

  private PairReduce(KernelContext context, CollectiveWork work, Kernel otherwise) {
    super(context, work, otherwise);
    this.reduction = context.reduction(work);
    this.elementBytes = work.type().bytes();
    this.scratch = context.scratch;
    this.toBoth = work.operation() == Operation.ALL_REDUCE;
  }

  /** This kernel where it suits, the same on both ranks; else another one. */
  static Kernel or(KernelContext context, CollectiveWork work, Kernel otherwise) {
    int parts = work.operation() == Operation.ALL_REDUCE ? 2 : 1;
    return suits(context, work, parts * SingleCopy.LEAST_BYTES)
            && !context.reduction(work).hasPrepare()
        ? new PairReduce(context, work, otherwise)
        : otherwise;
  }

  @Override
  @HotPath
  boolean expose(HostMemory send, HostMemory recv, long half) {
    return offer(send, isRoot || toBoth ? recv : null, isRoot ? bytes - half : half);
  }

  @Override
  @HotPath
  void work(HostMemory send, HostMemory recv, long half) {
    if (isRoot) {
      combine(send, 0, source(), sourceOffset(), recv, 0, 0, half);
    } else if (toBoth) {
      combine(source(), sourceOffset(), send, 0, recv, 0, half, bytes);
    } else {
      combine(source(), sourceOffset(), send, 0, target(), targetOffset(), half, bytes);
    }
  }

  /** Combines a range of two buffers into the same range of a third, and copies it to the peer. */
  private void combine(
      HostMemory a,
      long aOffset,
      HostMemory b,
      long bOffset,
      HostMemory target,
      long targetOffset,
      long begin,
      long end) {
    boolean inPlace = a.address() + aOffset == target.address() + targetOffset;
    boolean mayStage = leaves && (toBoth || !inPlace);
    BufferCopies by = isRoot || toBoth ? copies : peers;
    int most = mayStage ? STAGED_PIECE : toBoth ? COPIED_PIECE : PIECE;
    for (long at = begin; at < end; at += most) {
      int piece = (int) Math.min(most, end - at);
      int count = piece / elementBytes;
      boolean staged = mayStage && by.stagesSum(piece);
      HostMemory to = staged ? scratch : target;
      long toOffset = staged ? 0 : targetOffset + at;
      reduction.reduce(a, aOffset + at, b, bOffset + at, to, toOffset, count);
      if (reduction.hasFinish()) {
        reduction.finish(to, toOffset, count);
      }
      if (staged) {
        by.copySum(scratch, 0, target, targetOffset + at, piece);
      }
      if (toBoth && mayStage) {
        peers.copySum(to, toOffset, target(), targetOffset() + at, piece);
      } else if (toBoth) {
        peers.copy(to, toOffset, target(), targetOffset() + at, piece, /* leaves= */ false);
      }
      check();
    }
  }
}
