package org.nccl4j.it.perf.rank;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.function.Consumer;
import java.util.function.Predicate;
import org.nccl4j.api.ChosenAlgorithm;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Group;
import org.nccl4j.api.UniqueId;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InternalErrorException;
import org.nccl4j.device.NcclException;
import org.nccl4j.it.perf.check.CheckResult;
import org.nccl4j.it.perf.check.DataSet;
import org.nccl4j.it.perf.nccl.Libnccl;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.PreparedCall;
import org.nccl4j.it.perf.workload.Segment;
import org.nccl4j.operation.Operation;

/** Does the orders of the ranks that one thread drives, each with a communicator of its own. */
public final class RankWorker implements AutoCloseable {
  private final RankSpec spec;
  private final CommunicatorSource entrance;
  private final Predicate<RankSpec> binding;
  private final List<RankLane> lanes = new ArrayList<>();
  private CommunicatorConfig config = CommunicatorConfig.defaults().withName("perf");
  private Libnccl nccl;
  private OverlapTimer overlap; // null before the first

  /**
   * Ranks that have not joined yet.
   *
   * @param entrance where they will
   */
  RankWorker(RankSpec spec, CommunicatorSource entrance) {
    this(spec, entrance, CoreBinding::bind);
  }

  /**
   * The same, bound in another way.
   *
   * @param binding binds the calling thread, or returns false
   */
  RankWorker(RankSpec spec, CommunicatorSource entrance, Predicate<RankSpec> binding) {
    this.spec = spec;
    this.entrance = entrance;
    this.binding = binding;
  }

  /** Does an order; whatever goes wrong is in the answer. */
  public Reply obey(Command order) {
    try {
      return answer(order);
    } catch (NcclException e) {
      return new Reply.Failed(e.id(), e.problem(), e.remedy(), trace(e));
    } catch (RuntimeException | LinkageError | OutOfMemoryError e) {
      return new Reply.Failed(ErrorId.INTERNAL, e.toString(), "report this as a defect", trace(e));
    }
  }

  private Reply answer(Command order) {
    if (order instanceof Command.Measure measure) {
      long nanos = measure(measure);
      return new Reply.Took(nanos, blocks(measure.library()));
    } else if (order instanceof Command.Overlap overlap) {
      return overlap(overlap);
    } else if (order instanceof Command.Check check) {
      return new Reply.Checked(check(check.cell(), check.seed()));
    } else if (order instanceof Command.Join join) {
      return join(join);
    } else if (order instanceof Command.Explain explain) {
      return explain(explain.cell());
    } else if (order instanceof Command.CreateId create) {
      return new Reply.Text(
          create.library() == Library.OURS ? UniqueId.create().toString() : nccl().uniqueId());
    } else if (order instanceof Command.Quantise quantise) {
      lanes.forEach(lane -> lane.quantise(quantise.format(), quantise.block()));
      return new Reply.Text("");
    } else if (order instanceof Command.JoinLibnccl join) {
      return join(join);
    } else if (order instanceof Command.Costs costs) {
      return costs(costs);
    }
    close();
    return new Reply.Left();
  }

  private Libnccl nccl() {
    if (nccl == null && !spec.libnccl().isEmpty()) {
      nccl = Libnccl.load(spec.libnccl());
    }
    return nccl;
  }

  private Reply explain(Cell cell) {
    Operation operation = cell.workload().operation();
    long count = cell.layout(spec.nRanks()).count();
    Communicator communicator = lanes.get(0).communicator();
    ChosenAlgorithm decision =
        spec.registration() == RegistrationMode.NOT
            ? communicator.chosenAlgorithm(operation, count, cell.type())
            : communicator.chosenAlgorithmInWindows(operation, count, cell.type());
    return new Reply.Explained(
        decision.algorithm().label(),
        decision.protocol().label(),
        lanes.get(0).explained().explain(operation, count, cell.type()));
  }

  private void makeLanes() {
    for (int i = lanes.size(); i < spec.drives(); i++) {
      lanes.add(new RankLane(spec.at(spec.rank() + i, 1), nccl()));
    }
  }

  private Reply join(Command.Join order) {
    config = config.withOperationTimeout(Duration.ofSeconds(order.deadlineSeconds()));
    order.settings().forEach((key, value) -> config = config.with(key, value));
    if (!order.transports().isEmpty()) {
      config = config.withTransports(order.transports());
    }
    boolean first =
        order.binding() == CoreBinding.Time.BEFORE_CREATION
            && spec.drives() == 1
            && CoreBinding.hasCores(spec);
    Set<Integer> before = first ? CoreBinding.threads() : Set.of();
    boolean bound = first && binding.test(spec);
    makeLanes();
    List<String> devices = new ArrayList<>();
    for (RankLane lane : lanes) {
      lane.join(
          first
              ? entrance.joinBound(lane.spec(), order.uniqueId(), config)
              : entrance.join(lane.spec(), order.uniqueId(), config));
      devices.add(lane.device().name());
    }
    Group.run(() -> lanes.forEach(RankLane::register));
    if (bound) {
      CoreBinding.releaseOthers(before);
    } else if (order.binding() == CoreBinding.Time.AFTER_CREATION) {
      bound = bindAfterOthers();
    }
    return new Reply.Joined(
        ProcessHandle.current().pid(),
        List.copyOf(devices),
        lanes.get(0).communicator().transports(),
        bound);
  }

  /** Once the threads that all ranks of a process share have started, which are to stay unbound. */
  private boolean bindAfterOthers() {
    awaitOthers();
    return binding.test(spec);
  }

  private Reply join(Command.JoinLibnccl order) {
    makeLanes();
    atOnce(lane -> lane.join(order.library(), order.uniqueId()));
    return new Reply.Text(nccl.version());
  }

  /** Does something that waits for the other ranks, for all lanes of this thread. */
  private void atOnce(Consumer<RankLane> action) {
    List<FutureTask<Void>> tasks = new ArrayList<>();
    for (RankLane lane : lanes.subList(1, lanes.size())) {
      FutureTask<Void> task = new FutureTask<>(() -> action.accept(lane), null);
      tasks.add(task);
      new Thread(task, "rank " + lane.rank()).start();
    }
    action.accept(lanes.get(0));
    for (FutureTask<Void> task : tasks) {
      try {
        task.get();
      } catch (ExecutionException e) {
        throw e.getCause() instanceof NcclException nccl
            ? nccl.again()
            : new InternalErrorException("a rank could not join", "report this", e);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new InternalErrorException("a rank was interrupted", "run the command again", e);
      }
    }
  }

  private Reply costs(Command.Costs order) {
    makeLanes();
    RankLane lane = lanes.get(0);
    lane.makeCurrent();
    return new CommunicatorCosts(lane)
        .measure(
            id ->
                order.library() == Library.OURS
                    ? CommunicatorCosts.ours(lane, entrance.join(lane.spec(), id, config))
                    : CommunicatorCosts.theirs(NcclRank.join(lane, id, false)),
            order.uniqueIds());
  }

  private long measure(Command.Measure order) {
    IterationPlan pace = order.pace();
    List<PreparedCall> operations = new ArrayList<>();
    for (RankLane lane : lanes) {
      lane.makeCurrent();
      operations.add(lane.operation(order.cell(), order.library()));
      lane.buffers(order.library()).clear(order.cell());
    }
    try (Launches launches = new Launches(lanes, operations, order.library(), pace.aggregate())) {
      if (pace.graph() > 0) {
        launches.run(1); // what is done once for each shape is not for a capture
        synchronize();
        launches.capture(pace.graph());
        launches.runGraphs(pace.warmup() / pace.graph());
      } else {
        launches.run(pace.warmup());
      }
      synchronize();
      awaitOthers();
      return clock(launches, pace);
    }
  }

  /** Blocks of the last operation, which only ours tells. */
  private int blocks(Library library) {
    return library == Library.OURS ? lanes.get(0).communicator().lastBlocks() : 0;
  }

  private Reply overlap(Command.Overlap order) {
    RankLane lane = lanes.get(0);
    lane.makeCurrent();
    PreparedCall operation = lane.operation(order.cell(), order.library());
    lane.buffers(order.library()).clear(order.cell());
    if (overlap == null) {
      overlap = new OverlapTimer(lane, this::awaitOthers);
    }
    return overlap.measure(operation, order.calls(), order.micros(), () -> blocks(order.library()));
  }

  private long clock(Launches launches, IterationPlan pace) {
    long start = System.nanoTime();
    if (pace.blocking()) {
      for (int i = 0; i < pace.iterations(); i++) {
        launches.run(1);
        synchronize();
        awaitOthers();
      }
    } else if (pace.graph() > 0) {
      launches.runGraphs(pace.iterations() / pace.graph());
      synchronize();
    } else {
      launches.run(pace.iterations());
      synchronize();
    }
    return System.nanoTime() - start;
  }

  private void synchronize() {
    for (RankLane lane : lanes) {
      lane.stream().synchronize();
    }
  }

  /** Returns once every rank has come here. */
  private void awaitOthers() {
    if (lanes.size() == 1) {
      lanes.get(0).launchBarrier();
    } else {
      Group.run(() -> lanes.forEach(RankLane::launchBarrier));
    }
    synchronize();
  }

  private CheckResult check(Cell cell, long seed) {
    List<RankBuffers.Checked> all = new ArrayList<>();
    List<PreparedCall> operations = new ArrayList<>();
    List<DataSet> data = new ArrayList<>();
    for (RankLane lane : lanes) {
      RankBuffers.Checked checked = lane.buffers().checked(cell);
      long reach = cell.layout(spec.nRanks()).send();
      DataSet set = new DataSet(cell.type(), cell.op(), spec.nRanks(), reach, seed);
      DataSet.poison(checked.everything());
      set.fillSend(lane.rank(), checked.buffers().send());
      all.add(checked);
      data.add(set);
      operations.add(lane.operation(cell, Library.OURS));
    }
    awaitOthers();
    try (Launches launches = new Launches(lanes, operations, Library.OURS, 1)) {
      launches.run(1);
    }
    synchronize();
    CheckResult verdict = CheckResult.RIGHT;
    for (int lane = 0; lane < all.size(); lane++) {
      RankBuffers.Checked checked = all.get(lane);
      verdict = verdict.and(new CheckResult(0, DataSet.damage(checked.guard()), ""));
      for (Segment segment : checked.expected()) {
        verdict = verdict.and(data.get(lane).verify(segment, checked.buffers().recv()));
      }
    }
    return verdict;
  }

  private static String trace(Throwable e) {
    StringWriter text = new StringWriter();
    e.printStackTrace(new PrintWriter(text));
    return text.toString();
  }

  @Override
  public void close() {
    if (overlap != null) {
      overlap.close();
      overlap = null;
    }
    lanes.forEach(RankLane::close);
    lanes.clear();
  }
}
