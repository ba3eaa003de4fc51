package org.nccl4j.device.cuda.copy;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.function.Function;
import org.nccl4j.device.connection.Connection;
import org.nccl4j.device.cuda.plan.CommunicatorMemory;
import org.nccl4j.device.cuda.plan.CudaPlan;
import org.nccl4j.device.cuda.plan.P2pPlans;
import org.nccl4j.device.cuda.plan.PlanContext;
import org.nccl4j.device.cuda.stream.InternalStreams;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.support.CloseAll;

/**
 * Plans sends and receives of which copy engines do some. Messages of the same peer and direction
 * keep their order, since both kinds go through the same slots: in each phase go, of each peer and
 * direction, those up to the next of the other kind. Used by the thread that launches.
 */
public final class CopyEngineP2p implements AutoCloseable {
  private final PlanContext context;
  private final KernelCommunicatorSpec spec;
  private final CommunicatorMemory memory;
  private InternalStreams outgoing; // null before the first such messages
  private InternalStreams incoming;

  private record Key(boolean sends, int peer) {
    static Key of(P2pWork work) {
      return new Key(work.kind() == P2pWork.Kind.SEND, work.peer());
    }
  }

  /** Messages of a peer and direction, one after the other, of one kind. */
  private record Run(boolean copies, List<P2pWork> works) {}

  public CopyEngineP2p(PlanContext context) {
    this.context = context;
    this.spec = context.spec();
    this.memory = context.memory();
  }

  /** True if copy engines do it; the same at both ends. */
  public boolean takes(P2pWork work) {
    return work.copies()
        && work.bytes() > 0
        && work.peer() != spec.rank()
        && connection(Key.of(work)).carried() == 0;
  }

  private Connection connection(Key key) {
    return P2pPlans.connection(spec, key.sends, key.peer);
  }

  /**
   * A plan.
   *
   * @param kernels makes the kernel for those that copy engines do not do
   */
  public CopyEngineP2pPlan prepare(List<P2pWork> works, Function<List<P2pWork>, CudaPlan> kernels) {
    List<List<P2pWork>> byKernel = new ArrayList<>();
    List<List<CopyEngineChannel>> lanes = new ArrayList<>();
    for (List<Run> runs : runs(works).values()) {
      for (int phase = 0; phase < runs.size(); phase++) {
        if (phase == lanes.size()) {
          byKernel.add(new ArrayList<>());
          lanes.add(new ArrayList<>());
        }
        Run run = runs.get(phase);
        if (run.copies) {
          lanes.get(phase).add(lane(run.works));
        } else {
          byKernel.get(phase).addAll(run.works);
        }
      }
    }
    List<CopyEngineP2pPlan.Phase> phases = new ArrayList<>();
    for (int phase = 0; phase < lanes.size(); phase++) {
      List<P2pWork> rest = byKernel.get(phase);
      CudaPlan kernel = rest.isEmpty() ? null : kernels.apply(rest);
      phases.add(CopyEngineP2pPlan.Phase.of(kernel, lanes.get(phase)));
    }
    makeStreams();
    return new CopyEngineP2pPlan(context, phases, outgoing, incoming, P2pPlans.needs(works));
  }

  private Map<Key, List<Run>> runs(List<P2pWork> works) {
    Map<Key, List<Run>> all =
        new TreeMap<>(Comparator.comparingInt(key -> P2pPlans.order(spec, key.sends, key.peer)));
    for (P2pWork work : works) {
      List<Run> runs = all.computeIfAbsent(Key.of(work), key -> new ArrayList<>());
      boolean copies = takes(work);
      if (runs.isEmpty() || runs.get(runs.size() - 1).copies != copies) {
        runs.add(new Run(copies, new ArrayList<>()));
      }
      runs.get(runs.size() - 1).works.add(work);
    }
    return all;
  }

  private CopyEngineChannel lane(List<P2pWork> works) {
    return new CopyEngineChannel(
        context, memory, connection(Key.of(works.get(0))), spec.layout(), works);
  }

  private void makeStreams() {
    if (outgoing == null) {
      outgoing = new InternalStreams(context.gpu());
    }
    if (incoming == null) {
      incoming = new InternalStreams(context.gpu());
    }
  }

  /** Nothing may be running. */
  @Override
  public void close() {
    CloseAll all = new CloseAll();
    if (outgoing != null) {
      all.take(outgoing::close);
    }
    if (incoming != null) {
      all.take(incoming::close);
    }
    all.end();
  }
}
