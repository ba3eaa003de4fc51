package org.nccl4j.device.host.kernel.algorithm;

import java.util.List;
import java.util.stream.IntStream;
import org.nccl4j.device.host.kernel.protocol.Chunking;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.kernel.protocol.Primitives;
import org.nccl4j.device.host.reduce.PartialReduction;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.kernel.CollectiveWork;

/** The kernels along binomial trees, and of recursive doubling and halving. */
public final class DoublingKernels implements HostAlgorithm {
  @Override
  public Kernel kernel(KernelContext context, CollectiveWork work) {
    if (!work.operation().isRooted()) {
      return exchanges(context, work);
    }
    BinomialTree tree = new BinomialTree(context.ring(), work.root());
    Chunking whole = context.parts(work, work.count(), 1);
    return switch (work.operation()) {
      case BROADCAST -> {
        Primitives down = context.primitives(work, tree.parent(), tree.children(), null);
        Chunking ahead = context.parts(work, work.count(), 1);
        yield new BinomialTree.Broadcast(down, whole, new ExpectedChunks(down, ahead), 0);
      }
      case REDUCE ->
          new BinomialTree.Reduce(
              context.primitives(work, tree.children(), tree.parent(), context.reduction(work)),
              whole,
              0);
      default -> throw KernelContext.none(work);
    };
  }

  private static Kernel exchanges(KernelContext context, CollectiveWork work) {
    Doubling place = new Doubling(context.spec.rank(), context.spec.nRanks());
    Reduction whole = context.reduction(work);
    Reduction partial = whole == null ? null : new PartialReduction(whole);
    Primitives[] partners =
        IntStream.of(place.partners())
            .mapToObj(partner -> context.inSlots(work, List.of(partner), List.of(partner), partial))
            .toArray(Primitives[]::new);
    List<Integer> other = List.of(place.spare());
    Primitives spare = place.spare() < 0 ? null : context.inSlots(work, other, other, partial);
    int size = work.type().bytes();
    switch (work.operation()) {
      case ALL_REDUCE -> {
        Chunking parts = context.parts(work, work.count(), 1);
        return new Doubling.AllReduce(place, partners, spare, whole, size, parts);
      }
      case REDUCE_SCATTER -> {
        int chunk = Math.min(work.chunkBytes(), KernelContext.WORK_BYTES) / context.spec.nRanks();
        if (chunk < size) {
          throw KernelContext.none(work);
        }
        long bytes = KernelContext.bytes(work);
        Chunking parts = new Chunking(bytes, 1, size, chunk);
        return new Doubling.ReduceScatter(
            place, partners, spare, whole, size, parts, bytes, context.sums);
      }
      default -> throw KernelContext.none(work);
    }
  }
}
