package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Call;
import org.nccl4j.device.host.kernel.protocol.Copies;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.RecvEnd;
import org.nccl4j.device.host.kernel.protocol.SendEnd;
import org.nccl4j.device.host.kernel.protocol.SlotPrimitives;
import org.nccl4j.device.host.kernel.protocol.SpinWait;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Small broadcasts and reduces of two ranks: one step in LL128, without the loop over chunks and
 * the choices between kinds of steps that take as long as the step itself. Data and bits are those
 * of the ring.
 */
final class OneStep {
  private OneStep() {}

  /** True for broadcasts and reduces of two ranks that are one short step in LL128. */
  static boolean suits(KernelContext context, CollectiveWork work) {
    return context.spec.nRanks() == 2
        && work.operation().isRooted()
        && work.protocol() == Protocol.LL128
        && KernelContext.bytes(work) <= Math.min(work.chunkBytes(), SlotPrimitives.SHORT)
        && isPlain(context.reduction(work));
  }

  private static boolean isPlain(Reduction reduction) {
    return reduction == null
        || !reduction.hasPrepare() && !reduction.hasFinish() && !reduction.widens();
  }

  /** The kernel of a work that suits. */
  static Kernel of(KernelContext context, CollectiveWork work) {
    int peer = 1 - context.spec.rank();
    int bytes = (int) KernelContext.bytes(work);
    boolean isRoot = context.spec.rank() == work.root();
    boolean reduces = work.operation() == Operation.REDUCE;
    if (isRoot != reduces) {
      return new Send(
          context.ends.send(peer), context.waiter, context.call(work), bytes, /* copies= */ isRoot);
    }
    RecvEnd from = context.ends.recv(peer);
    return reduces
        ? new Reduce(
            from,
            context.waiter,
            context.call(work),
            context.reduction(work),
            bytes,
            (int) work.count())
        : new Receive(from, context.waiter, context.call(work), bytes);
  }

  /** Own data to the peer, and where a broadcast's root is out of place to its target. */
  private record Send(SendEnd to, SpinWait waiter, Call call, int bytes, boolean copies)
      implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      to.sendSmall(waiter, send, 0, bytes, call);
      if (copies && send.address() != recv.address()) {
        Copies.copy(send, 0, recv, 0, bytes);
      }
    }
  }

  /** The peer's data. */
  private record Receive(RecvEnd from, SpinWait waiter, Call call, int bytes) implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      from.recvSmall(waiter, call, recv, 0, bytes);
    }
  }

  /** Own data and the peer's, combined in this order. */
  private record Reduce(
      RecvEnd from, SpinWait waiter, Call call, Reduction reduction, int bytes, int count)
      implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      long theirs = from.awaitSmall(waiter, call, bytes);
      reduction.reduce(send, 0, from.memory(), theirs, recv, 0, count);
      from.releaseLazily();
    }
  }
}
