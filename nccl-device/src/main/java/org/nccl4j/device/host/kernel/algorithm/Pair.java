package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.BufferCopies;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.RecvEnd;
import org.nccl4j.device.host.kernel.protocol.SendEnd;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.operation.Protocol;

/**
 * An operation whose data go one way, between two ranks of a host that expose to each other their
 * whole buffers for a kernel: so each does half of the work, and both cores have some. Where one
 * does not reach the other's buffers, the ring's kernel runs instead.
 */
abstract class Pair implements Kernel {
  /** Most bytes of a piece of the work; after each, a rank looks whether the other has failed. */
  static final int PIECE = 1 << 20;

  final long bytes;
  final boolean isRoot;

  /** True if the outcome leaves the caches before anybody reads it. */
  final boolean leaves;

  final BufferCopies copies;
  final BufferCopies peers;
  private final Kernel otherwise;
  private final SpinWait waiter;
  private final Call call;
  private final SendEnd to;
  private final RecvEnd from;

  /**
   * A kernel.
   *
   * @param otherwise what runs where a rank does not reach the other's buffers
   */
  Pair(KernelContext context, CollectiveWork work, Kernel otherwise) {
    int peer = 1 - context.spec.rank();
    this.bytes = KernelContext.bytes(work);
    this.isRoot = context.spec.rank() == work.root();
    this.leaves = context.leaves(work);
    this.copies = context.copies;
    this.peers = copies.ofPeers();
    this.otherwise = otherwise;
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

  @Override
  @HotPath
  public final void run(HostMemory send, HostMemory recv) {
    long half = bytes / 2 & -64;
    boolean exposed = expose(send, recv, half);
    from.awaitData(waiter, call);
    from.locate(waiter);
    boolean both = exposed && from.isExposed();
    if (both) {
      work(send, recv, half);
    }
    from.release();
    if (!both) {
      otherwise.run(send, recv);
    }
  }

  /**
   * Exposes this rank's buffers until the kernel ends, by {@link #offer}, or tells the peer that it
   * gets none.
   *
   * @param half the bytes of the work that the root does: the first
   * @return whether the peer reaches them
   */
  abstract boolean expose(HostMemory send, HostMemory recv, long half);

  /** Does this rank's half, on its own buffers and the peer's. */
  abstract void work(HostMemory send, HostMemory recv, long half);

  /**
   * Exposes buffers, or none.
   *
   * @param source for the peer to read; null to expose none
   * @param target for the peer to write to; null for none
   * @param read bytes of the source that the peer is going to read
   * @return whether they are exposed
   */
  @HotPath
  final boolean offer(HostMemory source, HostMemory target, long read) {
    return to.offer(waiter, source, target, read, call);
  }

  /** The peer's buffer to read. */
  @HotPath
  final HostMemory source() {
    return from.part();
  }

  @HotPath
  final long sourceOffset() {
    return from.partOffset(0);
  }

  /** The peer's buffer to write to. */
  @HotPath
  final HostMemory target() {
    return from.target(waiter);
  }

  @HotPath
  final long targetOffset() {
    return from.targetOffset();
  }

  /** Throws if the peer has failed. */
  @HotPath
  final void check() {
    from.check(waiter);
  }
}
