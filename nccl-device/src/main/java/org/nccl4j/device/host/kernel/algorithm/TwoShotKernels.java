package org.nccl4j.device.host.kernel.algorithm;

import java.util.List;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.host.memory.HostMemory;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.operation.Operation;

/**
 * All-reduce as a reduce-scatter straight to each chunk's owner and an all-gather straight from it.
 * Chunks are combined in the order of the ranks.
 */
public final class TwoShotKernels implements HostAlgorithm {
  @Override
  public Kernel kernel(KernelContext context, CollectiveWork work) {
    if (work.operation() != Operation.ALL_REDUCE) {
      throw KernelContext.none(work);
    }
    List<Integer> others = context.others();
    Primitives all = context.primitives(work, others, others, context.reductionOfAll(work));
    Chunking parts = context.parts(work, work.count(), context.spec.nRanks());
    return PairReduce.or(
        context,
        work,
        new AllReduce(all, context.to(work), context.from(work), parts, context.spec.rank()));
  }

  private record AllReduce(
      Primitives all, Primitives[] to, Primitives[] from, Chunking parts, int rank)
      implements Kernel {
    @Override
    @HotPath
    public void run(HostMemory send, HostMemory recv) {
      for (boolean more = parts.first(); more; more = parts.next()) {
        for (Primitives peer : to) {
          int owner = peer.sends[0].peer;
          peer.send(send, parts.offset(owner), parts.bytes(owner));
        }
        long own = parts.offset(rank);
        all.reduceInOrder(
            send, own, recv, own, parts.bytes(rank), Primitives.RECEIVE | Primitives.SEND);
        for (Primitives peer : from) {
          int owner = peer.recvs[0].peer;
          peer.recv(recv, parts.offset(owner), parts.bytes(owner));
        }
      }
    }
  }
}
