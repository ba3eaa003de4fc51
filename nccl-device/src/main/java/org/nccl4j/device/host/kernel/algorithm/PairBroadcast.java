package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.CollectiveWork;

/**
 * Broadcast in place between two ranks that reach each other's buffers: each copies one half. The
 * root exposes nothing where it has a copy of its own to make, so that the ring's kernel runs.
 */
final class PairBroadcast extends Pair {
  /** Below, the ranks' waiting for each other takes as long as the work that is saved. */
  private static final long LEAST_BYTES = 1 << 20;

  PairBroadcast(KernelContext context, CollectiveWork work, Kernel otherwise) {
    super(context, work, otherwise);
  }

  /** True for large broadcasts of two ranks of a host; the same on both ranks. */
  static boolean suits(KernelContext context, CollectiveWork work) {
    return suits(context, work, LEAST_BYTES);
  }

  @Override
  @HotPath
  boolean expose(HostMemory send, HostMemory recv, long half) {
    if (!isRoot) {
      return offer(recv, recv, 0);
    }
    return offer(send.address() == recv.address() ? send : null, null, bytes - half);
  }

  @Override
  @HotPath
  void work(HostMemory send, HostMemory recv, long half) {
    if (isRoot) {
      copy(send, 0, target(), targetOffset(), 0, half);
    } else {
      copy(source(), sourceOffset(), recv, 0, half, bytes);
    }
  }

  /** Copies a range of a buffer to the same range of another. */
  private void copy(
      HostMemory from, long fromOffset, HostMemory to, long toOffset, long begin, long end) {
    for (long at = begin; at < end; at += PIECE) {
      int piece = (int) Math.min(PIECE, end - at);
      peers.copy(from, fromOffset + at, to, toOffset + at, piece, leaves);
      check();
    }
  }
}
