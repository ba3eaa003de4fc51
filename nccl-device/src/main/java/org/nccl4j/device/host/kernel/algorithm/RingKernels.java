package org.nccl4j.device.host.kernel.algorithm;

import java.util.List;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.kernel.CollectiveWork;

/** The kernels of the ring. */
public final class RingKernels implements HostAlgorithm {
  @Override
  public Kernel kernel(KernelContext context, CollectiveWork work) {
    if (OneStep.suits(context, work)) {
      return OneStep.of(context, work);
    }
    Ring ring = context.ring();
    long bytes = KernelContext.bytes(work);
    Primitives along =
        context.primitives(
            work, List.of(ring.previous()), List.of(ring.next()), context.reduction(work));
    int n = ring.size();
    Chunking whole = context.parts(work, work.count(), 1);
    Chunking ahead = context.parts(work, work.count(), 1);
    return switch (work.operation()) {
      case ALL_REDUCE ->
          PairReduce.or(
              context,
              work,
              new RingAllReduce(
                  ring,
                  along,
                  context.parts(work, work.count(), n),
                  context.parts(work, work.count(), n)));
      case ALL_GATHER -> new RingAllGather(ring, along, whole, ahead, bytes);
      case REDUCE_SCATTER -> new RingReduceScatter(ring, along, whole, bytes);
      case BROADCAST -> {
        Kernel round = new RingBroadcast(ring, along, whole, ahead, work.root());
        yield PairBroadcast.suits(context, work) ? new PairBroadcast(context, work, round) : round;
      }
      case REDUCE -> PairReduce.or(context, work, new RingReduce(ring, along, whole, work.root()));
      default -> throw KernelContext.none(work);
    };
  }
}
