package org.nccl4j.api;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.ExpertKernels;
import org.nccl4j.device.kernel.ExpertSizes;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicatorSpec;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.OneSidedWork;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.kernel.QuantisedWork;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.device.symmetric.SymmetricSpace;
import org.nccl4j.operation.Algorithm;

/** Kernels that record what the engine asks of them, and move no data. */
public class FakeKernels implements KernelCommunicator {
  /** A plan, and the work that it was prepared for. */
  public static final class Plan implements KernelPlan {
    private final Object work;
    private final ReductionOperator operator;
    private int discards;

    private Plan(Object work, ReductionOperator operator) {
      this.work = work;
      this.operator = operator;
    }

    /** Returns the collective. */
    public CollectiveWork collective() {
      return (CollectiveWork) work;
    }

    /** Returns the sends and receives. */
    @SuppressWarnings("unchecked")
    public List<P2pWork> messages() {
      return (List<P2pWork>) work;
    }

    /** Returns the sends and receives of each step. */
    @SuppressWarnings("unchecked")
    public List<List<P2pWork>> steps() {
      return (List<List<P2pWork>>) work;
    }

    /** Returns the operation between windows. */
    public WindowWork direct() {
      return (WindowWork) work;
    }

    /** True if it goes straight between windows. */
    public boolean isDirect() {
      return work instanceof WindowWork;
    }

    /** Returns the operator that a user has made; null where it is one of the library's. */
    public ReductionOperator operator() {
      return operator;
    }

    @Override
    public int blocks() {
      return work instanceof CollectiveWork collective ? collective.nChannels() : 0;
    }

    /** Returns how often it was given back. */
    public int discards() {
      return discards;
    }

    @Override
    public void discard() {
      discards++;
    }
  }

  /** A launch. */
  public record Launch(Plan plan, DeviceMemory send, DeviceMemory recv, DeviceStream stream) {}

  /** Everything that was prepared, in order. */
  public final List<Plan> plans = new ArrayList<>();

  /** Everything that was launched, in order. */
  public final List<Launch> launches = new ArrayList<>();

  /** The algorithms that reduce by an operator of a user's. */
  public final List<Algorithm> byOperator = new ArrayList<>(List.of(Algorithm.values()));

  /** Whether it claims to have copy engines. */
  public boolean copyEngines;

  /** Most operations of a group that it takes together; 0 for none. */
  public int together;

  /** Operations that were launched together, by launch, in order; not among the launches. */
  public final List<List<Launch>> groups = new ArrayList<>();

  /** What a launch throws; null for nothing. */
  public RuntimeException launchError;

  /** Plans that it prepares before it throws. */
  public int mostPlans = Integer.MAX_VALUE;

  private volatile NcclException failure;

  /** The plan that was prepared last. */
  public Plan last() {
    return plans.get(plans.size() - 1);
  }

  private Plan plan(Object work, ReductionOperator operator) {
    if (plans.size() >= mostPlans) {
      throw new InternalErrorException("no room for a plan", "make room");
    }
    plans.add(new Plan(work, operator));
    return last();
  }

  @Override
  public KernelPlan prepare(CollectiveWork work) {
    return plan(work, null);
  }

  @Override
  public KernelPlan prepare(CollectiveWork work, ReductionOperator operator) {
    return plan(work, operator);
  }

  @Override
  public KernelPlan prepare(List<P2pWork> works) {
    return plan(List.copyOf(works), null);
  }

  @Override
  public KernelPlan prepareInSteps(List<List<P2pWork>> steps) {
    return plan(steps.stream().map(List::copyOf).toList(), null);
  }

  @Override
  public KernelPlan prepare(WindowWork work) {
    return plan(work, null);
  }

  @Override
  public ExpertKernels.Steps expertSteps(ExpertSizes sizes, int mostBlocks) {
    throw new UnsupportedOperationException();
  }

  @Override
  public KernelPlan prepare(QuantisedWork work) {
    return plan(work, null);
  }

  @Override
  public KernelPlan prepare(LocalReduction work) {
    return plan(work, null);
  }

  @Override
  public KernelPlan prepare(OneSidedWork work) {
    return plan(work, null);
  }

  @Override
  public boolean reducesByOperator(Algorithm algorithm) {
    return byOperator.contains(algorithm);
  }

  @Override
  public boolean hasCopyEngines() {
    return copyEngines;
  }

  @Override
  public void attach(SymmetricSpace space) {}

  @Override
  public void attach(Nvls made) {}

  @Override
  public void launch(KernelPlan plan, DeviceMemory send, DeviceMemory recv, DeviceStream stream) {
    if (launchError != null) {
      throw launchError;
    }
    launches.add(new Launch((Plan) plan, send, recv, stream));
  }

  @Override
  public GroupLaunch groupLaunch() {
    return together == 0 ? null : group;
  }

  private final GroupLaunch group =
      new GroupLaunch() {
        private final List<Launch> added = new ArrayList<>();

        @Override
        public boolean add(
            KernelPlan plan, DeviceMemory send, DeviceMemory recv, DeviceStream stream) {
          return added.size() < together && added.add(new Launch((Plan) plan, send, recv, stream));
        }

        @Override
        public int size() {
          return added.size();
        }

        @Override
        public KernelPlan launch(int from, int to) {
          if (launchError != null) {
            throw launchError;
          }
          groups.add(List.copyOf(added.subList(from, to)));
          return added.get(to - 1).plan();
        }

        @Override
        public void clear() {
          added.clear();
        }
      };

  @Override
  public void abort(NcclException cause) {
    failure = failure == null ? cause : failure;
  }

  @Override
  public NcclException failure() {
    return failure;
  }

  @Override
  public boolean isIdle() {
    return true;
  }

  @Override
  public Optional<String> sharingObstacle() {
    return Optional.of("it is a fake");
  }

  @Override
  public KernelCommunicator share(
      KernelCommunicatorSpec spec, List<Integer> parentRanks, String path) {
    throw new UnsupportedOperationException();
  }

  @Override
  public long nextLaunch() {
    return launches.size() + 1L;
  }

  @Override
  public boolean hasEnded(long launch) {
    return launch <= launches.size();
  }

  @Override
  public long ended() {
    return launches.size();
  }

  @Override
  public void close() {}
}
