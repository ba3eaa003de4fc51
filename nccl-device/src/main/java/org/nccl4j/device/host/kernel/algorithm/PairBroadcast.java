package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Copies;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.memory.StreamingCopy;
import org.nccl4j.device.kernel.CollectiveWork;

/**
 * Broadcast in place between two ranks that reach each other's buffers: each copies one half. Where
 * one does not reach the other's, or the root has a copy of its own to make, the ring's kernel runs
 * instead.
 */
final class PairBroadcast implements Kernel {
  /** Below, the ranks' waiting for each other takes as long as the work that is saved. */
  private static final long LEAST_BYTES = 1 << 20;

  private final Kernel otherwise;
  private final Pair pair;
  private final long bytes;
  private final boolean isRoot;

  /** True if what is received leaves the caches before anybody reads it. */
  private final boolean leaves;

  private final StreamingCopy streaming = StreamingCopy.open();

  /**
   * A kernel.
   *
   * @param otherwise what runs where a rank does not reach the other's buffers
   */
  PairBroadcast(KernelContext context, CollectiveWork work, Kernel otherwise) {
    this.otherwise = otherwise;
    this.pair = new Pair(context, work);
    this.bytes = KernelContext.bytes(work);
    this.isRoot = context.spec.rank() == work.root();
    this.leaves = context.leaves(work);
  }

  /** True for large broadcasts of two ranks of a host; the same on both ranks. */
  static boolean suits(KernelContext context, CollectiveWork work) {
    return Pair.suits(context, work, LEAST_BYTES);
  }

  @Override
  @HotPath
  public void run(HostMemory send, HostMemory recv) {
    long half = Pair.half(bytes);
    boolean lends = !isRoot || send.address() == recv.address();
    boolean both =
        pair.exchange(lends, isRoot ? send : recv, isRoot ? null : recv, isRoot ? bytes - half : 0);
    if (both && isRoot) {
      copy(send, 0, pair.target(), pair.targetOffset(), 0, half);
    } else if (both) {
      copy(pair.source(), pair.sourceOffset(), recv, 0, half, bytes);
    }
    pair.release();
    if (!both) {
      otherwise.run(send, recv);
    }
  }

  /** Copies a range of a buffer to the same range of another. */
  private void copy(
      HostMemory from, long fromOffset, HostMemory to, long toOffset, long begin, long end) {
    for (long at = begin; at < end; at += Pair.PIECE) {
      int piece = (int) Math.min(Pair.PIECE, end - at);
      if (leaves) {
        Copies.stream(streaming, from, fromOffset + at, to, toOffset + at, piece);
      } else {
        Copies.copy(from, fromOffset + at, to, toOffset + at, piece);
      }
      pair.check();
    }
  }
}
