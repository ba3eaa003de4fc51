package org.nccl4j.device.host.kernel.algorithm;

import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.RecvEnd;
import org.nccl4j.device.host.kernel.protocol.SendEnd;
import org.nccl4j.device.host.reduce.Operands;
import org.nccl4j.device.kernel.CollectiveWork;

/** The kernels of parallel aggregated trees. */
public final class PatKernels implements HostAlgorithm {
  @Override
  public Kernel kernel(KernelContext context, CollectiveWork work) {
    PatTrees trees = new PatTrees(context.spec.rank(), context.spec.nRanks());
    int size = work.type().bytes();
    long bytes = KernelContext.bytes(work);
    int message = Math.min(work.chunkBytes(), context.spec.layout().simpleSlotBytes());
    int chunk = trees.chunkBytes(message, size);
    if (chunk == 0) {
      throw KernelContext.none(work);
    }
    SendEnd[] after = new SendEnd[trees.distances()];
    SendEnd[] before = new SendEnd[trees.distances()];
    RecvEnd[] fromBefore = new RecvEnd[trees.distances()];
    RecvEnd[] fromAfter = new RecvEnd[trees.distances()];
    for (int level = 0; level < trees.distances(); level++) {
      after[level] = context.ends.send(trees.at(1 << level));
      before[level] = context.ends.send(trees.at(-(1 << level)));
      fromBefore[level] = context.ends.recv(trees.at(-(1 << level)));
      fromAfter[level] = context.ends.recv(trees.at(1 << level));
    }
    return switch (work.operation()) {
      case ALL_GATHER ->
          new PatAllGather(
              trees,
              context.waiter,
              context.call(work),
              context.copies,
              context.leaves(work),
              after,
              fromBefore,
              bytes,
              chunk);
      case REDUCE_SCATTER ->
          new PatReduceScatter(
              trees,
              context.waiter,
              context.call(work),
              before,
              fromAfter,
              context.reduction(work),
              size,
              new Operands(),
              context.scratch,
              bytes,
              chunk);
      default -> throw KernelContext.none(work);
    };
  }
}
