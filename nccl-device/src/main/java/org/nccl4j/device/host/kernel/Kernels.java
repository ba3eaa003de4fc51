package org.nccl4j.device.host.kernel;

import java.util.EnumMap;
import java.util.Map;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.host.kernel.algorithm.HostAlgorithm;
import org.nccl4j.device.host.kernel.algorithm.KernelContext;
import org.nccl4j.device.host.kernel.algorithm.SingleRankReduction;
import org.nccl4j.device.host.kernel.protocol.Kernel;
import org.nccl4j.device.host.reduce.Reduction;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.operation.Algorithm;

/** The kernels of a communicator: which one runs a collective by an algorithm. Any thread. */
final class Kernels {
  private static final Map<Algorithm, HostAlgorithm> LOADED = new EnumMap<>(Algorithm.class);

  private final KernelContext context;

  Kernels(KernelContext context) {
    this.context = context;
  }

  void attach(Nvls made) {
    context.attach(made);
  }

  Kernel of(CollectiveWork work, ReductionOperator other) {
    return of(work, context.with(other));
  }

  Kernel of(CollectiveWork work) {
    return of(work, context);
  }

  private static Kernel of(CollectiveWork work, KernelContext context) {
    if (work.count() == 0) {
      return (send, recv) -> {};
    }
    if (context.spec().nRanks() == 1) {
      return alone(work, context);
    }
    try {
      return algorithm(work.algorithm()).kernel(context, work);
    } catch (ClassNotFoundException e) {
      throw KernelContext.none(work);
    }
  }

  private static Kernel alone(CollectiveWork work, KernelContext context) {
    long bytes = work.count() * work.type().bytes();
    Reduction reduction = context.reduction(work);
    if (context.hasOperator() && reduction.hasPrepare()) {
      return new SingleRankReduction(reduction, work.type().bytes(), bytes);
    }
    return context.copy(bytes);
  }

  private static HostAlgorithm algorithm(Algorithm algorithm) throws ClassNotFoundException {
    synchronized (LOADED) {
      HostAlgorithm loaded = LOADED.get(algorithm);
      if (loaded == null) {
        loaded = HostAlgorithm.of(algorithm);
        LOADED.put(algorithm, loaded);
      }
      return loaded;
    }
  }
}
