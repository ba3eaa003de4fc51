package org.nccl4j.api.group;

import java.util.Map;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.plan.BufferWindows;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.plan.trial.Trials;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.operation.Operation;

/**
 * The entry of one rank's operations: checks them, and launches them or keeps them until the end of
 * their group.
 */
public final class OperationDispatcher {
  private final CommunicatorRank rank;
  private final ArgumentCheck arguments;
  private final CheckedCall last = new CheckedCall();
  private final SteppedReductions steps;
  private final GroupLauncher groups;

  /** True on the host, whose streams look at the memories of a launch. */
  private final boolean isOnHost;

  private Planner planner;
  private Launcher launcher;

  /** Compares calls across ranks; null where that is not asked for. */
  private CallConsistencyCheck signatures;

  /** Null where nothing is tried. Set before the first operation. */
  private Trials trials;

  /**
   * The dispatcher of one rank.
   *
   * @param signatures compares calls across ranks; null where that is not asked for
   */
  public OperationDispatcher(
      CommunicatorRank rank, Planner planner, Launcher launcher, CallConsistencyCheck signatures) {
    this.rank = rank;
    this.arguments =
        new ArgumentCheck(
            rank.name(),
            rank.rank(),
            rank.nRanks(),
            rank.device(),
            rank.checksPointers(),
            rank.checksOverlaps());
    this.isOnHost = rank.device().kind() == Device.Kind.HOST;
    this.steps = new SteppedReductions(rank);
    this.groups = new GroupLauncher(rank, steps, this::launchCollective);
    this.planner = planner;
    this.launcher = launcher;
    this.signatures = signatures;
    attach();
  }

  /** Has all that plans or launches use the planner and the launcher. */
  private void attach() {
    steps.attach(planner, launcher);
    groups.attach(planner, launcher, /* together= */ trials == null && signatures == null);
    if (trials != null) {
      trials.attach(planner, launcher);
    }
  }

  /**
   * Has all-reduces and reduce-scatters travel quantised; before the first operation.
   *
   * @param memory of all dispatchers of the rank that do so
   */
  public void quantise(QuantisedSums.How how, QuantisedMemory memory) {
    steps.quantise(how, memory);
  }

  /** Has collectives measured, and tried by other algorithms; before the first operation. */
  public void tryOut(Trials newTrials) {
    trials = newTrials;
    attach();
  }

  /**
   * Adds the bytes of the device's memory that operations in steps hold, by purpose. Any thread.
   */
  public void addStepMemory(Map<String, Long> items) {
    steps.addMemory(items);
    if (planner.memoryBytes() > 0) {
      items.merge("all-to-all by rails", planner.memoryBytes(), Long::sum);
    }
  }

  /** True if buffers are refused that overlap in another way than in place. */
  public boolean checksOverlaps() {
    return arguments.checksOverlaps();
  }

  /** Refuses a root that is not a rank, of an operation that consists of sends and receives. */
  public void requireRoot(String operation, int root) {
    arguments.requireRoot(operation, root);
  }

  /**
   * Frees the memory of operations in steps, none of which runs. Those of a later planner allocate
   * it anew.
   */
  public void freeSteps() {
    planner.freeMemory();
    steps.free();
  }

  /**
   * Adopts the state of another dispatcher of the same rank, which has new kernels. The caller
   * ensures happens-before to later operations.
   */
  public void become(OperationDispatcher other) {
    close(/* idle= */ true);
    planner = other.planner;
    launcher = other.launcher;
    signatures = other.signatures;
    attach();
    if (trials != null) {
      trials.attach(planner, launcher, other.trials);
    }
  }

  /**
   * Ends its thread, and frees what it holds itself.
   *
   * @param idle whether none of its operations runs; else its memory stays, and the thread ends
   *     once what it launches is launched
   */
  public void close(boolean idle) {
    if (idle && signatures != null) {
      signatures.close();
    }
    if (idle) {
      freeSteps();
    }
    groups.close(idle);
  }

  /** Ends trials: what has been measured is written. After the last operation. */
  public void endTrials() {
    if (trials != null) {
      trials.close();
    }
  }

  /** Blocks of this rank's last operation on a GPU; see {@link Launcher#lastBlocks}. */
  public int lastBlocks() {
    return launcher.lastBlocks();
  }

  /** Launches this rank's operations at the end of their group. */
  GroupLauncher groups() {
    return groups;
  }

  /** Returns the planner of the operations. */
  public Planner planner() {
    return planner;
  }

  /**
   * An operation.
   *
   * @param shape as {@link CallShape} has it
   */
  @HotPath
  public void call(
      long shape, DeviceMemory send, DeviceMemory recv, long count, DeviceStream stream) {
    GroupScope group = GroupScope.mayBeOpen() ? GroupScope.open() : null;
    if (group != null) {
      if (!repeats(group.exchange(), shape, send, recv, count, stream)) {
        keep(group, shape, null, send, recv, count, stream);
      }
      return;
    }
    boolean repeated = last.repeats(shape, send, recv, count, stream) && !isUndecided(send, recv);
    if (!repeated) {
      checkCall(shape, send, recv, count, stream);
    }
    launcher.enter();
    try {
      if (repeated && last.isSame(shape, send, recv, count, stream)) {
        launch(shape, send, recv, count, stream);
        return;
      }
      if (repeated) { // another thread's call came first, and was the last
        checkArguments(shape, send, recv, count, stream);
      }
      if (!rank.checksPointers()) {
        last.set(shape, send, recv, count, stream);
      }
      DeviceMemory from = arguments.send(shape, send, count);
      DeviceMemory to = arguments.recv(shape, recv, count);
      launch(shape, from, to, count, stream);
    } finally {
      launcher.leave();
    }
  }

  /**
   * An operation of a communicator with error feedback, which quantised sums have.
   *
   * @param residual float32 for each element of the send buffer; null for none
   */
  @HotPath
  public void call(
      long shape,
      DeviceMemory residual,
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DeviceStream stream) {
    if (residual == null || !isQuantised(shape)) {
      call(shape, send, recv, count, stream);
      return;
    }
    GroupScope group = GroupScope.mayBeOpen() ? GroupScope.open() : null;
    if (group != null) {
      keep(group, shape, residual, send, recv, count, stream);
      return;
    }
    checkCall(shape, send, recv, count, stream);
    steps.quantised().checkResidual(residual, shape, count);
    launcher.enter();
    try {
      DeviceMemory from = arguments.send(shape, send, count);
      DeviceMemory to = arguments.recv(shape, recv, count);
      launchQuantised(shape, residual, from, to, count, stream);
    } finally {
      launcher.leave();
    }
  }

  @HotPath
  private void checkCall(
      long shape, DeviceMemory send, DeviceMemory recv, long count, DeviceStream stream) {
    checkArguments(shape, send, recv, count, stream);
    if (isUndecided(send, recv)) {
      mapUnused(shape, send, recv, count, stream);
    }
  }

  @HotPath
  private boolean isUndecided(DeviceMemory send, DeviceMemory recv) {
    return planner.windows().isUndecided() && planner.windows().mayBeUndecided(send, recv);
  }

  @HotPath
  private void checkArguments(
      long shape, DeviceMemory send, DeviceMemory recv, long count, DeviceStream stream) {
    arguments.check(shape, send, recv, count, stream);
    if (isQuantised(shape)) {
      steps.quantised().check(shape, count);
    }
  }

  /** True if such a call travels quantised. */
  @HotPath
  public boolean isQuantised(long shape) {
    return steps.isQuantised(shape);
  }

  /** Keeps a call for the end of a group, which fails if the call does. */
  @HotPath
  private void keep(
      GroupScope group,
      long shape,
      DeviceMemory residual,
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DeviceStream stream) {
    try {
      group.settle();
      launcher.checkAccepts();
      DeviceMemory from = send;
      DeviceMemory to = recv;
      if (!isKnown(group.size(), shape, send, recv, count, stream)) {
        checkCall(shape, send, recv, count, stream);
        from = arguments.send(shape, send, count);
        to = arguments.recv(shape, recv, count);
      }
      if (residual != null) {
        steps.quantised().checkResidual(residual, shape, count);
      }
      boolean leases = !group.leases(stream);
      Task.lease(from, to, residual, leases ? stream : null);
      group
          .next()
          .set(groups, shape, null)
          .on(from, to, count, stream)
          .feeding(residual)
          .leasing(leases);
    } catch (RuntimeException | Error e) {
      group.fail(e);
      throw e;
    }
  }

  /** True if a call is the next of an exchange that the group repeats; null: it repeats none. */
  @HotPath
  private boolean repeats(
      RepeatedExchange exchange,
      long shape,
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DeviceStream stream) {
    return exchange != null
        && isOnHost
        && mayRepeat(send, recv, stream)
        && launcher.accepts()
        && exchange.takes(groups, shape, send == null ? recv : send, count, stream);
  }

  /**
   * True for a send or receive that was valid at the same place of an earlier group, and is valid
   * still.
   */
  @HotPath
  private boolean isKnown(
      int index,
      long shape,
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DeviceStream stream) {
    DeviceMemory buffer = send == null ? recv : send;
    return groups.singles().knows(index, shape, buffer, count)
        && (buffer == null || buffer.isOpen())
        && mayRepeat(send, recv, stream);
  }

  /** True if a call with some buffers in a stream may be one that was valid before. */
  @HotPath
  private boolean mayRepeat(DeviceMemory send, DeviceMemory recv, DeviceStream stream) {
    return (send == null || recv == null)
        && stream != null
        && stream.device() == rank.device()
        && Leases.of(stream).isOpen()
        && !rank.checksPointers();
  }

  /** Buffers that are registered and have not been used are mapped first, by all ranks. */
  private void mapUnused(
      long shape, DeviceMemory send, DeviceMemory recv, long count, DeviceStream stream) {
    if (CallShape.operation(shape).isOfAllRanks() && count > 0 && !stream.isCapturing()) {
      BufferWindows windows = planner.windows();
      GroupScope.meet(windows.registry(), () -> windows.decide(shape, send, recv, count));
    }
  }

  /**
   * An operation that reduces by an operator of its own.
   *
   * @param kind its shape, with the operator SUM
   */
  public void call(
      long kind,
      ReductionOperator operator,
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DeviceStream stream) {
    GroupScope group = GroupScope.open();
    try {
      if (group != null) {
        group.settle();
      }
      launcher.checkAccepts();
      arguments.check(kind, send, recv, count, stream);
      arguments.check(kind, operator);
      long shape = CallShape.withFunction(kind, operator.mark(rank.device().kind()));
      if (operator.isFunction()) {
        steps.check(new FunctionReductions.Reduced(shape, operator, send, recv, count, stream));
      }
      if (isQuantised(shape)) {
        throw steps.quantised().refusal(shape, operator.name());
      }
      if (group != null && rank.isOnGpu() && count > 0 && steps.takes(operator)) {
        loadFunction(shape, count, operator);
      }
      DeviceMemory from = arguments.send(shape, send, count);
      DeviceMemory to = arguments.recv(shape, recv, count);
      boolean leases = group == null || !group.leases(stream);
      Task.lease(from, to, operator.memory(), leases ? stream : null);
      if (group == null) {
        launchAlone(shape, operator, from, to, count, stream);
      } else {
        group.next().set(groups, shape, operator).on(from, to, count, stream).leasing(leases);
      }
    } catch (RuntimeException | Error e) {
      if (group != null) {
        group.fail(e);
      }
      throw e;
    }
  }

  /**
   * Loads a function's code at its call in a group, whose thread may launch for several ranks: the
   * driver may load none while a kernel waits for a rank that the thread launches later.
   */
  private void loadFunction(long shape, long count, ReductionOperator operator) {
    launcher.enter();
    try {
      steps.prepare(shape, count, operator, null);
    } finally {
      launcher.leave();
    }
  }

  /** Launches an operation outside groups, and ends its leases. */
  private void launchAlone(
      long shape,
      ReductionOperator operator,
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DeviceStream stream) {
    try {
      launcher.enter();
      try {
        launchSupplied(shape, operator, send, recv, count, stream);
      } finally {
        launcher.leave();
      }
    } finally {
      Leases.end(send, recv);
      Leases.end(operator.memory(), null);
      Leases.of(stream).end();
    }
  }

  private void launchSupplied(
      long shape,
      ReductionOperator operator,
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DeviceStream stream) {
    if (signatures != null) {
      signatures.launch(shape, operator, count, Planner.Placement.NONE, stream);
    }
    if (count > 0) {
      if (steps.takes(operator)) {
        steps.launch(new FunctionReductions.Reduced(shape, operator, send, recv, count, stream));
      } else {
        launcher.launching(1);
        launcher.launchCollective(
            planner.plan(shape, count, operator), send, recv, stream, shape, count);
      }
      launcher.tell(shape, count, stream);
    }
  }

  @HotPath
  private void launch(
      long shape, DeviceMemory send, DeviceMemory recv, long count, DeviceStream stream) {
    if (isQuantised(shape)) {
      launchQuantised(shape, null, send, recv, count, stream);
      return;
    }
    if (signatures != null) {
      signatures.launch(shape, count, planner.placement(shape, send, recv, count), stream);
    }
    if (count > 0) {
      launcher.launching(1);
      Operation operation = CallShape.operation(shape);
      boolean sends = operation == Operation.SEND;
      boolean single = operation.isP2p();
      if (single && planner.windows().hasOffer(CallShape.bytes(shape, count))) {
        Leases.extend(send, recv); // the launch itself does not name the buffers
        try {
          P2pTasks one = groups.singles();
          one.put(0, shape, sends ? send : recv, count, planner);
          launcher.launchOther(one.plan(planner), null, null, stream, shape, count);
        } finally {
          Leases.end(send, recv);
        }
      } else {
        KernelPlan plan = planner.plan(shape, send, recv, count);
        if (single) {
          launcher.launchOther(plan, send, recv, stream, shape, count);
        } else if (trials != null) {
          trials.launch(plan, send, recv, stream, shape, count);
        } else {
          launcher.launchCollective(plan, send, recv, stream, shape, count);
        }
      }
      if (single) {
        launcher.single(sends, CallShape.root(shape));
      }
      launcher.tell(shape, count, stream);
    }
  }

  @HotPath
  private void launchQuantised(
      long shape,
      DeviceMemory residual,
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DeviceStream stream) {
    if (signatures != null) {
      signatures.launch(shape, count, Planner.Placement.NONE, stream);
    }
    if (count > 0) {
      steps.launchQuantised(shape, residual, send, recv, count, stream);
      launcher.tell(shape, count, stream);
    }
  }

  /**
   * Makes the plan of a collective over connections, which its first call then finds; on a GPU,
   * whose plans need no other rank.
   */
  public void prepare(long shape, long count) {
    launcher.enter();
    try {
      if (rank.isOnGpu() && count > 0 && !isQuantised(shape)) {
        planner.prepare(shape, count);
      }
    } finally {
      launcher.leave();
    }
  }

  /**
   * Prepares a collective as {@link #prepare(long, long)} does, as a sum with root 0.
   *
   * @throws InvalidArgumentException for an operation without algorithms, or a negative count
   */
  public void prepare(Operation operation, long count, DataType type) {
    OperationCheck.requireCollective(operation, type);
    prepare(CallShape.of(operation, type, RedOp.SUM, 0), Arguments.count(count));
  }

  /**
   * Prepares a reduction by an operator of its own, with root 0: a function's code is compiled and
   * loaded.
   *
   * @throws InvalidArgumentException for an operation that does not reduce, or a negative count
   */
  public void prepare(Operation operation, long count, DataType type, ReductionOperator operator) {
    OperationCheck.requireReduction(operation, type, operator);
    long shape =
        CallShape.withFunction(
            CallShape.of(operation, type, operator, 0), operator.mark(rank.device().kind()));
    Arguments.count(count);
    launcher.enter();
    try {
      arguments.check(shape, operator);
      steps.check(new FunctionReductions.Reduced(shape, operator, null, null, count, null));
      if (rank.isOnGpu() && count > 0 && !steps.prepare(shape, count, operator, null)) {
        planner.plan(shape, count, operator);
      }
    } finally {
      launcher.leave();
    }
  }

  /**
   * Returns the choices for an operation as {@link Planner#explain}, and what quantising changes.
   *
   * @throws InvalidArgumentException for null, an operation without algorithms, or a negative count
   */
  public String explain(Operation operation, long count, DataType type) {
    OperationCheck.requirePlanned(operation, count, type);
    String plain = planner.explain(operation, count, type);
    long shape = CallShape.of(operation, type, RedOp.SUM, 0);
    return isQuantised(shape) ? plain + steps.quantised().explain(operation, count, type) : plain;
  }

  /** Launches a collective of a group by itself; the thread is in the launcher. */
  private void launchCollective(Task task) {
    if (task.operator() != null) {
      launchSupplied(
          task.shape(), task.operator(), task.send(), task.recv(), task.count(), task.stream());
    } else if (task.residual() != null) {
      launchQuantised(
          task.shape(), task.residual(), task.send(), task.recv(), task.count(), task.stream());
    } else {
      launch(task.shape(), task.send(), task.recv(), task.count(), task.stream());
    }
  }

  /** Returns the algorithm for an operation; throws as {@link #explain}. */
  public AlgorithmChoice choice(Operation operation, long count, DataType type) {
    OperationCheck.requirePlanned(operation, count, type);
    return planner.choice(operation, count, type);
  }

  /** Returns the algorithm if all buffers lie in windows; throws as {@link #explain}. */
  public AlgorithmChoice choiceInWindows(Operation operation, long count, DataType type) {
    OperationCheck.requirePlanned(operation, count, type);
    return planner
        .choiceInWindows(operation, count, type)
        .orElseGet(() -> planner.choice(operation, count, type));
  }
}
