package org.nccl4j.api.exchange;

import org.nccl4j.api.group.OperationDispatcher;
import org.nccl4j.api.init.CommunicatorState;
import org.nccl4j.api.plan.LastUsedPlans;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.api.window.KernelMemory;
import org.nccl4j.api.window.KernelMemory.Bytes;
import org.nccl4j.api.window.RegisteredWindow;
import org.nccl4j.device.DataType;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.Leases;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.kernel.ExpertKernels.Form;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.RaggedKernels;
import org.nccl4j.device.symmetric.WindowView;
import org.nccl4j.operation.Operation;

/**
 * Exchanges elements by a kernel that stores them into the other ranks' windows, where the received
 * elements lie. A call is one kernel in its stream, and waits for nothing. The host does not know
 * the counts: records and hooks have the most bytes for one rank.
 */
public final class RaggedDirect implements RaggedDelivery {
  private static final int MOST_COMBINATIONS = 64;

  private final CommunicatorState state;
  private final KernelCommunicator kernels;
  private final int elementBytes;
  private final KernelMemory memory;

  /** The window of the received elements. */
  private final RegisteredWindow window;

  private final DeviceMemory received;
  private final LaunchTurn launches;
  private final RaggedKernels.Plan plan;

  /** For reductions that no kernel makes. */
  private final RaggedSums sums;

  private final OperationDispatcher dispatcher;
  private final RaggedKernels.Memory all;

  /** Plans of the second kernel of a reduce-scatter. */
  private final LastUsedPlans<RaggedKernels.Combination> combinations =
      new LastUsedPlans<>(MOST_COMBINATIONS);

  private RaggedDirect(
      CommunicatorState state,
      OperationDispatcher dispatcher,
      RaggedSums sums,
      Form form,
      KernelMemory memory,
      RegisteredWindow window,
      RaggedKernels.Memory all) {
    RaggedKernels.Sizes sizes = sums.sizes();
    this.state = state;
    this.dispatcher = dispatcher;
    this.sums = sums;
    this.all = all;
    this.kernels = state.kernels();
    this.elementBytes = sizes.elementBytes();
    this.memory = memory;
    this.window = window;
    this.received = all.received();
    launches = new LaunchTurn(state.launcher(), DataType.UINT8);
    launches.count(sizes.maxCount() * elementBytes);
    plan = launches.prepare(() -> kernels.raggedKernels().orElseThrow().prepare(sizes, form, all));
  }

  /**
   * This rank's kernel, which is loaded then.
   *
   * @param dispatcher whose limits of blocks and protocols count
   */
  public static KernelOffer offer(
      CommunicatorState state, OperationDispatcher dispatcher, RaggedKernels.Sizes sizes) {
    Planner planner = dispatcher.planner();
    return KernelOffer.of(
        state,
        state.kernels().raggedKernels(),
        kernels ->
            new Form(
                Math.min(kernels.mostBlocks(sizes), planner.mostBlocks()),
                planner.allowsLines(),
                /* bandwidth= */ 0));
  }

  /**
   * Makes the window together with all other ranks.
   *
   * @param form of the kernel, the same on all ranks
   * @param target the user's window for the received elements; null for memory of the exchange
   * @param sums whose results the caller closes
   * @throws NcclException on all ranks, if one of them lacks memory or cannot map another's
   */
  public static RaggedDirect create(
      CommunicatorState state,
      OperationDispatcher dispatcher,
      Form form,
      RegisteredWindow target,
      RaggedSums sums) {
    RaggedKernels.Sizes sizes = sums.sizes();
    RaggedResults results = sums.results();
    RaggedKernels kernels = state.kernels().raggedKernels().orElseThrow();
    long control = kernels.controlBytes(sizes, form);
    long shared = control + (target == null ? sizes.receivedBytes() : 0);
    KernelMemory memory =
        KernelMemory.make(
            state.windows(), null, () -> new Bytes(shared, kernels.ownBytes(sizes, form)));
    try {
      WindowView view = memory.window().view();
      DeviceMemory received =
          target == null
              ? memory.shared().slice(control, sizes.receivedBytes())
              : target.memory().slice(0, sizes.receivedBytes());
      RaggedKernels.Memory all =
          new RaggedKernels.Memory(
              view,
              target == null ? control : first(target.view()) - first(view),
              received,
              memory.own(),
              results.counts(),
              results.offsets());
      RegisteredWindow window = target == null ? memory.window() : target;
      return new RaggedDirect(state, dispatcher, sums, form, memory, window, all);
    } catch (RuntimeException e) {
      memory.close();
      throw e;
    }
  }

  /** The address of the first rank's part of a window, in the flat range. */
  private static long first(WindowView view) {
    return view.peers().get(0).address();
  }

  @Override
  public boolean isCapturable() {
    return true;
  }

  @Override
  public DeviceMemory received() {
    return received;
  }

  @Override
  public void allToAll(DeviceMemory send, DeviceMemory counts, DeviceStream stream) {
    launch(Operation.RAGGED_ALL_TO_ALL, send, counts, stream);
  }

  @Override
  public void allGather(DeviceMemory send, DeviceMemory count, DeviceStream stream) {
    launch(Operation.RAGGED_ALL_GATHER, send, count, stream);
  }

  private void launch(
      Operation operation, DeviceMemory send, DeviceMemory counts, DeviceStream stream) {
    long room = send.size() / elementBytes;
    Leases.begin(counts, null); // the launch itself does not name them
    try (LaunchTurn turn = launches.enter()) {
      window.use(kernels.nextLaunch());
      KernelPlan next =
          operation == Operation.RAGGED_ALL_TO_ALL
              ? plan.allToAll(counts, room)
              : plan.allGather(counts, room);
      turn.first(operation, next, send, null, stream);
    } finally {
      Leases.end(counts, null);
    }
  }

  /** True if there is room for the copies of all ranks, and nothing that the kernels do not do. */
  @Override
  public boolean combines(RaggedReduction how) {
    RaggedKernels.Sizes sizes = sums.sizes();
    return sizes.maxCount() <= sizes.maxReceived() / sizes.nRanks()
        && how.combinesCopies()
        && !dispatcher.isQuantised(how.shape(state.device().kind()));
  }

  /**
   * The received elements have room for the copies of all ranks, which a second kernel combines.
   */
  @Override
  public void reduceScatter(
      DeviceMemory send, DeviceMemory counts, RaggedReduction how, DeviceStream stream) {
    if (!combines(how)) {
      sums.reduceScatter(send, counts, received, how, stream);
      return;
    }
    long room = send.size() / elementBytes;
    Leases.begin(counts, null); // as above
    try (LaunchTurn turn = launches.enter()) {
      KernelPlan combination = combination(how);
      window.use(kernels.nextLaunch() + 1); // the second launch
      turn.combining(
          Operation.RAGGED_REDUCE_SCATTER,
          plan.scatter(counts, room, how.signature(state.device().kind())),
          send,
          combination,
          received,
          stream);
    } finally {
      Leases.end(counts, null);
    }
  }

  /** Compiles and loads what the reduction needs, before a kernel waits for another rank. */
  private KernelPlan combination(RaggedReduction how) {
    RaggedKernels.Combination key =
        new RaggedKernels.Combination(
            how.type(), how.op(), how.operator(), dispatcher.planner().mostLocalBlocks());
    KernelPlan known = combinations.get(key);
    if (known == null) {
      known = kernels.raggedKernels().orElseThrow().prepare(sums.sizes(), all, key);
      combinations.put(key, known);
    }
    return known;
  }

  private void discardPlans() {
    plan.discard();
    combinations.values().forEach(KernelPlan::discard);
  }

  /** A closed communicator has freed the window and the plan. */
  @Override
  public void close() {
    received.close();
    if (state.isClosed()) {
      memory.own().close();
      return;
    }
    launches.discard(this::discardPlans);
    memory.close();
  }
}
