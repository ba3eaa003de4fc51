package org.nccl4j.api.group;

import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import org.nccl4j.api.launch.Launcher;
import org.nccl4j.api.plan.BufferWindows;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.api.plan.algorithm.AlgorithmChoice;
import org.nccl4j.api.plan.trial.Trials;
import org.nccl4j.device.Arguments;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceEvent;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.DeviceStream;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.Leases;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.KernelCommunicator.GroupLaunch;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.operation.Operation;

/**
 * The entry of one rank's operations: checks them, and launches them or keeps them until the end of
 * their group.
 */
public final class OperationDispatcher implements RepeatedExchange.Rank {
  private final ArgumentCheck check;
  private final Rank rank;
  private final String communicator;
  private final Device device;
  private Planner planner;
  private Launcher launcher;
  private CallConsistencyCheck signatures;

  /** Null for operations that do not travel quantised. Set before the first operation. */
  private QuantisedSums quantised;

  /** Null before the first reduction by a function that goes in steps. */
  private volatile FunctionReductions functions;

  /** Null where nothing is tried. Set before the first operation. */
  private Trials trials;

  private final P2pTasks singles = new P2pTasks();

  /** Those of the group that is launched now. */
  private final Task.Row collectives = new Task.Row(2);

  private final CheckedCall last = new CheckedCall();

  private final LaunchThread.OnDemand launchThread;

  /** True on the host, whose streams look at the memories of a launch. */
  private final boolean isOnHost;

  /**
   * The dispatcher of one rank.
   *
   * @param name of the communicator
   * @param signatures compares calls across ranks; null where that is not asked for
   */
  public OperationDispatcher(
      String name,
      Rank rank,
      Device device,
      Planner planner,
      Launcher launcher,
      CallConsistencyCheck signatures) {
    this.check =
        new ArgumentCheck(
            name, rank.rank(), rank.nRanks(), device, rank.checksPointers(), rank.checksOverlaps());
    this.device = device;
    this.isOnHost = device.kind() == Device.Kind.HOST;
    this.rank = rank;
    this.communicator = name;
    this.launchThread =
        new LaunchThread.OnDemand(
            "nccl4j-launch-" + name + "-" + rank.rank(), device::useOnThisThread);
    this.planner = planner;
    this.launcher = launcher;
    this.signatures = signatures;
  }

  /**
   * Has all-reduces and reduce-scatters travel quantised; before the first operation.
   *
   * @param memory of all dispatchers of the rank that do so
   */
  public void quantise(QuantisedSums.How how, QuantisedMemory memory) {
    quantised = new QuantisedSums(how, rank.rank, rank.nRanks, device, who(), memory);
    quantised.attach(planner, launcher);
  }

  /** Has collectives measured, and tried by other algorithms; before the first operation. */
  public void tryOut(Trials newTrials) {
    trials = newTrials;
    trials.attach(planner, launcher);
  }

  /**
   * Adds the bytes of the device's memory that operations in steps hold, by purpose. Any thread.
   */
  public void addStepMemory(Map<String, Long> items) {
    FunctionReductions made = functions;
    add(items, "reductions by functions", made == null ? 0 : made.bytes());
    if (quantised != null && quantised.bytes() > 0) {
      items.put("quantised sums", quantised.bytes()); // of all dispatchers together
    }
    add(items, "all-to-all by rails", planner.memoryBytes());
  }

  private static void add(Map<String, Long> items, String purpose, long bytes) {
    if (bytes > 0) {
      items.merge(purpose, bytes, Long::sum);
    }
  }

  /** True if buffers are refused that overlap in another way than in place. */
  public boolean checksOverlaps() {
    return check.checksOverlaps();
  }

  /** Refuses a root that is not a rank, of an operation that consists of sends and receives. */
  public void requireRoot(String operation, int root) {
    check.requireRoot(operation, root);
  }

  /**
   * Frees the memory of operations in steps, none of which runs. Those of a later planner allocate
   * it anew.
   */
  public void freeSteps() {
    planner.freeMemory();
    if (quantised != null) {
      quantised.close();
    }
    if (functions != null) {
      functions.close();
    }
  }

  /** Made by the thread that is in the launcher. */
  private FunctionReductions functions() {
    if (functions == null) {
      functions = new FunctionReductions(rank.rank, rank.nRanks, device);
    }
    return functions;
  }

  /**
   * Adopts the state of another dispatcher of the same rank, which has new kernels. The caller
   * ensures happens-before to later operations.
   */
  public void become(OperationDispatcher other) {
    close(/* idle= */ true);
    planner = other.planner;
    singles.forget();
    launcher = other.launcher;
    signatures = other.signatures;
    if (trials != null) {
      trials.attach(planner, launcher);
    }
    if (quantised != null) {
      quantised.attach(planner, launcher);
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
    launchThread.end(idle);
  }

  /** Ends trials: what has been measured is written. After the last operation. */
  public void endTrials() {
    if (trials != null) {
      trials.close();
    }
  }

  /** A thread that launches for this rank beside the caller. */
  LaunchThread launchThread() {
    return launchThread.get();
  }

  /** Blocks of this rank's last operation on a GPU; see {@link Launcher#lastBlocks}. */
  public int lastBlocks() {
    return launcher.lastBlocks();
  }

  /** The same for communicators whose operations are in one order. */
  Object order() {
    return launcher.order();
  }

  /** True if another dispatcher belongs to another rank of the same communicator. */
  boolean isOfSameCommunicator(OperationDispatcher other) {
    return rank.communicator == other.rank.communicator && rank.rank != other.rank.rank;
  }

  @Override
  public String who() {
    return "rank %d of communicator %s".formatted(rank.rank, communicator);
  }

  /** An error of operations of two ranks in one stream. */
  InvalidArgumentException oneStream(OperationDispatcher other, DeviceStream stream) {
    return StreamErrors.ofTwoRanks(communicator, rank.rank, other.rank.rank, stream);
  }

  /**
   * Refuses operations of a group of this rank whose streams are not all in one capture, or in
   * none: the graph would have a part of the group alone, and its launches would repeat that part
   * without the rest. Asks the driver nothing where there is one stream alone.
   *
   * @param n the first so many tasks are the group's
   * @throws InvalidUsageException if they are not
   */
  @HotPath
  void checkCaptures(Task.Row tasks, int n) {
    Task first = null;
    DeviceStream known = null; // to be in the first stream's capture
    for (int t = 0; t < n; t++) {
      Task task = tasks.get(t);
      if (task.count() == 0 && !task.isSingle()) {
        continue; // launches nothing; streams of empty messages are waited for
      }
      if (first == null) {
        first = task;
      } else if (task.stream() != first.stream() && task.stream() != known) {
        checkCapture(first, task);
        known = task.stream();
      }
    }
  }

  private void checkCapture(Task first, Task later) {
    String where = who() + " on " + device.name();
    StreamErrors.checkCaptures(
        where, first.operation(), first.stream(), later.operation(), later.stream());
  }

  /** Returns the device on which the operations run. */
  Device device() {
    return device;
  }

  /** True if the operations run on a GPU. */
  boolean isOnGpu() {
    return device.kind() == Device.Kind.CUDA;
  }

  /** Returns the planner of the operations. */
  public Planner planner() {
    return planner;
  }

  /**
   * A rank and how many there are.
   *
   * @param communicator the same for all its ranks, and no other communicator's
   * @param rank 0 to nRanks - 1
   * @param checksPointers whether the device is asked about each buffer's address
   * @param checksOverlaps whether buffers are refused that overlap in another way than in place
   */
  public record Rank(
      long communicator, int rank, int nRanks, boolean checksPointers, boolean checksOverlaps) {}

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
      check(shape, send, recv, count, stream);
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
      DeviceMemory from = check.send(shape, send, count);
      DeviceMemory to = check.recv(shape, recv, count);
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
    check(shape, send, recv, count, stream);
    quantised.checkResidual(residual, shape, count);
    launcher.enter();
    try {
      DeviceMemory from = check.send(shape, send, count);
      DeviceMemory to = check.recv(shape, recv, count);
      launchQuantised(shape, residual, from, to, count, stream);
    } finally {
      launcher.leave();
    }
  }

  @HotPath
  private void check(
      long shape, DeviceMemory send, DeviceMemory recv, long count, DeviceStream stream) {
    checkArguments(shape, send, recv, count, stream);
    if (isUndecided(send, recv)) {
      decide(shape, send, recv, count, stream);
    }
  }

  @HotPath
  private boolean isUndecided(DeviceMemory send, DeviceMemory recv) {
    return planner.windows().isUndecided() && planner.windows().mayBeUndecided(send, recv);
  }

  @HotPath
  private void checkArguments(
      long shape, DeviceMemory send, DeviceMemory recv, long count, DeviceStream stream) {
    check.check(shape, send, recv, count, stream);
    if (isQuantised(shape)) {
      quantised.check(shape, count);
    }
  }

  /** True if such a call travels quantised. */
  @HotPath
  public boolean isQuantised(long shape) {
    return quantised != null && QuantisedSums.takes(shape);
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
        check(shape, send, recv, count, stream);
        from = check.send(shape, send, count);
        to = check.recv(shape, recv, count);
      }
      if (residual != null) {
        quantised.checkResidual(residual, shape, count);
      }
      boolean leases = !group.leases(stream);
      Task.lease(from, to, residual, leases ? stream : null);
      group
          .next()
          .set(this, shape, null)
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
      RepeatedExchange<OperationDispatcher> exchange,
      long shape,
      DeviceMemory send,
      DeviceMemory recv,
      long count,
      DeviceStream stream) {
    return exchange != null
        && isOnHost
        && mayRepeat(send, recv, stream)
        && launcher.accepts()
        && exchange.takes(this, singles, shape, send == null ? recv : send, count, stream);
  }

  @Override
  @HotPath
  public boolean launchAgain(P2pTasks.Known first, P2pTasks.Known second, DeviceStream stream) {
    launcher.enter();
    try {
      return singles.launchAgain(first, second, stream, planner, launcher);
    } finally {
      launcher.leave();
    }
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
    return singles.knows(index, shape, buffer, count)
        && (buffer == null || buffer.isOpen())
        && mayRepeat(send, recv, stream);
  }

  /** True if a call with some buffers in a stream may be one that was valid before. */
  @HotPath
  private boolean mayRepeat(DeviceMemory send, DeviceMemory recv, DeviceStream stream) {
    return (send == null || recv == null)
        && stream != null
        && stream.device() == device
        && Leases.of(stream).isOpen()
        && !rank.checksPointers();
  }

  /** Buffers that are registered and have not been used are mapped first, by all ranks. */
  private void decide(
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
      check.check(kind, send, recv, count, stream);
      check.check(kind, operator);
      long shape = CallShape.withFunction(kind, operator.mark(device.kind()));
      if (operator.isFunction()) {
        FunctionReductions.check(
            new FunctionReductions.Reduced(shape, operator, send, recv, count, stream),
            device,
            who());
      }
      if (isQuantised(shape)) {
        throw quantised.refusal(shape, operator.name());
      }
      if (group != null && isOnGpu() && count > 0 && FunctionReductions.takes(operator, device)) {
        load(shape, count, operator);
      }
      DeviceMemory from = check.send(shape, send, count);
      DeviceMemory to = check.recv(shape, recv, count);
      boolean leases = group == null || !group.leases(stream);
      Task.lease(from, to, operator.memory(), leases ? stream : null);
      if (group == null) {
        launchAlone(shape, operator, from, to, count, stream);
      } else {
        group.next().set(this, shape, operator).on(from, to, count, stream).leasing(leases);
      }
    } catch (RuntimeException | Error e) {
      if (group != null) {
        group.fail(e);
      }
      throw e;
    }
  }

  /** Throws if the communicator has failed or is closed. */
  @HotPath
  void checkAccepts() {
    launcher.checkAccepts();
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
      boolean inSteps = FunctionReductions.takes(operator, device);
      launcher.launching(inSteps ? FunctionReductions.MOST_LAUNCHES : 1);
      if (inSteps) {
        functions()
            .launch(
                planner,
                launcher,
                new FunctionReductions.Reduced(shape, operator, send, recv, count, stream));
      } else {
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
          singles.put(0, shape, sends ? send : recv, count, planner);
          launcher.launchOther(singles.plan(planner), null, null, stream, shape, count);
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
      launcher.launching(QuantisedSums.MOST_LAUNCHES);
      quantised.launch(shape, residual, send, recv, count, stream);
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
      if (isOnGpu() && count > 0 && !isQuantised(shape)) {
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
            CallShape.of(operation, type, operator, 0), operator.mark(device.kind()));
    Arguments.count(count);
    launcher.enter();
    try {
      check.check(shape, operator);
      FunctionReductions.check(
          new FunctionReductions.Reduced(shape, operator, null, null, count, null), device, who());
      if (isOnGpu() && count > 0) {
        prepare(shape, count, operator);
      }
    } finally {
      launcher.leave();
    }
  }

  /** Makes the plans of a group's operations of this rank, which its launch then finds. */
  void prepare(Task.Row tasks) {
    launcher.enter();
    try {
      int n = 0;
      for (int t = 0; t < tasks.size(); t++) {
        Task task = tasks.get(t);
        if (task.isSingle()) {
          put(n++, task);
        } else if (task.count() > 0 && task.operator() != null) {
          prepare(task.shape(), task.count(), task.operator());
        } else if (task.count() > 0 && isQuantised(task.shape())) {
          quantised.prepare(task.shape(), task.residual(), task.count());
        } else if (task.count() > 0) {
          planner.plan(task.shape(), task.send(), task.recv(), task.count());
        }
      }
      if (n > 0) {
        singles.plan(planner);
      }
    } finally {
      launcher.leave();
    }
  }

  /**
   * Loads a function's code at its call in a group, whose thread may launch for several ranks: the
   * driver may load none while a kernel waits for a rank that the thread launches later.
   */
  private void load(long shape, long count, ReductionOperator operator) {
    launcher.enter();
    try {
      functions().prepare(planner, shape, count, operator);
    } finally {
      launcher.leave();
    }
  }

  private void prepare(long shape, long count, ReductionOperator operator) {
    if (FunctionReductions.takes(operator, device)) {
      functions().prepare(planner, shape, count, operator);
    } else {
      planner.plan(shape, count, operator);
    }
  }

  /** Notes a send or receive of those that are planned together. */
  private void put(int index, Task task) {
    singles.put(index, task.shape(), task.ofSingle(), task.count(), planner);
  }

  /** Predicted microseconds. */
  double predict(Task task) {
    if (task.count() > 0
        && task.operator() != null
        && FunctionReductions.takes(task.operator(), device)) {
      return functions().predict(planner, task.shape(), task.count(), task.operator());
    }
    if (task.count() > 0 && isQuantised(task.shape())) {
      return quantised.predict(task.shape(), task.count());
    }
    return task.count() == 0 ? 0 : planner.predict(task.shape(), task.count());
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
    return isQuantised(shape) ? plain + quantised.explain(operation, count, type) : plain;
  }

  /**
   * Launches a group's operations of this rank: collectives first, then sends and receives.
   *
   * @param n the first so many tasks are the group's
   */
  void launch(Task.Row tasks, int n) {
    launcher.enter();
    try {
      if (singles.arePlanned(n) && areRepeated(tasks, n) && !planner.windows().hasOffers()) {
        launcher.launching(n);
        launchSingles(planner.planAgain(), tasks, n);
      } else if (n == 1 && !tasks.get(0).isSingle()) {
        launchCollective(tasks.get(0));
      } else {
        launchOthers(tasks, n);
      }
    } finally {
      launcher.leave();
    }
  }

  /** True if operations are the sends and receives that were planned last, all in one stream. */
  @HotPath
  private boolean areRepeated(Task.Row tasks, int n) {
    boolean same = true;
    for (int t = 0; t < n && same; t++) {
      Task task = tasks.get(t);
      same =
          singles.is(t, task.shape(), task.ofSingle(), task.count())
              && task.stream() == tasks.get(0).stream();
    }
    return same;
  }

  /** Launches operations that are neither a single collective nor a group that comes again. */
  private void launchOthers(Task.Row tasks, int n) {
    try {
      for (int t = 0; t < n; t++) {
        if (!tasks.get(t).isSingle()) {
          collectives.add(tasks.get(t));
        }
      }
      launchCollectives();
      if (collectives.size() < n) {
        launchTogether(tasks, n);
      }
    } finally {
      collectives.clear();
    }
  }

  private void launchCollectives() {
    for (int t = 0; t < collectives.size(); t++) {
      Task task = collectives.get(t);
      int together = gather(collectives, t);
      if (together > 1) {
        launchGathered(collectives, t, 0, together);
        t += together - 1;
      } else {
        launchCollective(task);
      }
    }
  }

  /** Launches one operation that is neither a send nor a receive. */
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

  /**
   * Launches one of the operations that {@link #together} says are launched together, of which
   * those before it have been launched. So ranks on one GPU launch them in turns.
   */
  void launchOneOf(Task.Row batch, int index) {
    launcher.enter();
    try {
      gather(batch, 0);
      launchGathered(batch, 0, index, index + 1);
    } finally {
      launcher.leave();
    }
  }

  /**
   * Returns how many collectives of a group, from one of them on, are launched together: the same
   * on all ranks, and at least 1. Sends and receives, which ranks have differently, are not among
   * them.
   */
  int together(Task.Row tasks, int first) {
    launcher.enter();
    try {
      int n = gather(tasks, first);
      if (n > 1) {
        launcher.groupLaunch().clear();
      }
      return n;
    } finally {
      launcher.leave();
    }
  }

  /**
   * Adds collectives of a group, from one of them on, to the group's launch. Forgets a single one,
   * which is launched by itself.
   *
   * @return how many are launched together
   */
  private int gather(Task.Row tasks, int first) {
    GroupLaunch group =
        tasks.size() > 1 && trials == null && signatures == null ? launcher.groupLaunch() : null;
    if (group == null) {
      return 1;
    }
    boolean several = false;
    try {
      int t = first;
      while (t < tasks.size() && isAdded(group, tasks.get(t))) {
        t++;
      }
      several = t - first > 1;
      return Math.max(1, t - first);
    } finally {
      if (!several) {
        group.clear();
      }
    }
  }

  private boolean isAdded(GroupLaunch group, Task task) {
    return task.count() > 0
        && task.operator() == null
        && !isQuantised(task.shape())
        && group.add(
            planner.plan(task.shape(), task.send(), task.recv(), task.count()),
            task.send(),
            task.recv(),
            task.stream());
  }

  /** Launches some of the operations that were gathered, from a first task on. */
  private void launchGathered(Task.Row tasks, int first, int from, int to) {
    GroupLaunch group = launcher.groupLaunch();
    launcher.launching(to - from);
    try {
      launcher.launchGroup(group, from, to, tasks.get(first + from).shape());
    } finally {
      group.clear();
    }
    for (int t = first + from; t < first + to; t++) {
      Task task = tasks.get(t);
      launcher.launched(task.shape(), task.count());
      launcher.tell(task.shape(), task.count(), task.stream());
    }
  }

  /** Sends and receives of several streams run in the first; the others wait before and after. */
  private void launchTogether(Task.Row tasks, int n) {
    Task one = null;
    int nSingles = 0;
    Set<DeviceStream> others = Set.of();
    for (int t = 0; t < n; t++) {
      Task task = tasks.get(t);
      if (task.isSingle()) {
        one = one == null ? task : one;
        put(nSingles++, task);
        if (task.stream() != one.stream()) {
          others = others.isEmpty() ? new LinkedHashSet<>() : others;
          others.add(task.stream());
        }
      }
    }
    DeviceStream first = one.stream();
    launcher.launching(nSingles);
    if (!others.isEmpty()) {
      others.forEach(other -> await(first, other));
    }
    launchSingles(singles.plan(planner), tasks, n);
    if (!others.isEmpty()) {
      others.forEach(other -> await(other, first));
    }
  }

  /** Launches the plan of the sends and receives among a group's operations. */
  private void launchSingles(KernelPlan plan, Task.Row tasks, int n) {
    Task one = null;
    for (int t = 0; t < n && one == null; t++) {
      one = tasks.get(t).isSingle() ? tasks.get(t) : null;
    }
    launcher.launchOther(plan, null, null, one.stream(), one.shape(), one.count());
    for (int t = 0; t < n; t++) {
      Task task = tasks.get(t);
      if (task.isSingle()) {
        P2pTasks.launched(launcher, task.shape(), task.count(), one.stream());
      }
    }
  }

  private void await(DeviceStream waiting, DeviceStream awaited) {
    try (DeviceEvent event = device.createEvent()) {
      awaited.record(event);
      waiting.await(event);
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
