package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.RecvEnd;
import org.nccl4j.device.host.kernel.protocol.SendEnd;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.operation.Protocol;

/**
 * The connections between two ranks of a host that lend each other their whole buffers for a
 * kernel, in operations whose data go one way: so each does half of the work, and both cores have
 * some.
 */
final class Pair {
  /** Most bytes of a piece of the work; after each, a rank looks whether the other has failed. */
  static final int PIECE = 1 << 20;

  private final SpinWait waiter;
  private final Call call;
  private final SendEnd to;
  private final RecvEnd from;

  Pair(KernelContext context, CollectiveWork work) {
    int peer = 1 - context.spec.rank();
    this.waiter = context.waiter;
    this.call = context.call(work);
    this.to = context.ends.send(peer);
    this.from = context.ends.recv(peer);
  }

  /** True for works of at least some bytes by Simple on two ranks of a host; the same on both. */
  static boolean suits(KernelContext context, CollectiveWork work, long leastBytes) {
    return context.spec.nRanks() == 2
        && context.spec.localRanks() == 2
        && work.protocol() == Protocol.SIMPLE
        && KernelContext.bytes(work) >= leastBytes;
  }

  /** Bytes of the work that the root does: the first. */
  static long half(long bytes) {
    return bytes / 2 & -64;
  }

  /**
   * Lends this rank's buffers and takes the peer's, until {@link #release}.
   *
   * @param lends whether to lend at all
   * @param source for the peer to read
   * @param target for the peer to write to; null for none
   * @param bytes of the source that the peer is going to read
   * @return whether both lend; otherwise none is to be used
   */
  @HotPath
  boolean exchange(boolean lends, HostMemory source, HostMemory target, long bytes) {
    boolean lent = to.offer(waiter, lends ? source : null, target, bytes, call);
    from.awaitData(waiter, call);
    from.locate(waiter);
    return lent && from.isLent();
  }

  /** The peer's buffer to read. */
  @HotPath
  HostMemory source() {
    return from.part();
  }

  @HotPath
  long sourceOffset() {
    return from.partOffset(0);
  }

  /** The peer's buffer to write to. */
  @HotPath
  HostMemory target() {
    return from.target(waiter);
  }

  @HotPath
  long targetOffset() {
    return from.targetOffset();
  }

  /** Throws if the peer has failed. */
  @HotPath
  void check() {
    from.check(waiter);
  }

  /** This rank touches the peer's buffers no more. */
  @HotPath
  void release() {
    from.release();
  }
}
