package org.nccl4j.api.plan;

import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.nccl4j.api.plan.algorithm.AlgorithmSelector;
import org.nccl4j.api.plan.algorithm.BufferReach;
import org.nccl4j.api.plan.algorithm.CtaLimits;
import org.nccl4j.api.plan.algorithm.TunerHook;
import org.nccl4j.api.plan.cost.AlgorithmChoice;
import org.nccl4j.api.plan.cost.CommunicatorProfile;
import org.nccl4j.api.plan.cost.CostModel;
import org.nccl4j.api.plan.cost.NvlsCostModel;
import org.nccl4j.api.plan.cost.RankPlacement;
import org.nccl4j.api.settings.AlgorithmFilter;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.api.window.WindowRegistry;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.connection.ConnectionLayout;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelCommunicator.LocalReduction;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.QuantisedWork;
import org.nccl4j.device.kernel.WindowWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * Turns operations into kernel plans, over connections or directly between the windows of the
 * buffers. Every rank makes the same decision, from facts that all of them know, as long as all
 * pass buffers in windows or none does. Used by one thread at a time.
 */
public final class Planner {
  private static final int SUPPLIED = 64;

  /** Costs count an operation's bytes so often at most: in all passes, and with scales. */
  private static final int COPIES = 16;

  private final KernelCommunicator kernels;
  private final CommunicatorProfile ranks;
  private final ConnectionLayout layout;
  private final NvlsAccess nvls;
  private final MessageChoices choices;
  private final P2pPlanner messages;
  private final BufferWindows windows;
  private final Rules rules;
  private CostModel costs;
  private AlgorithmSelector selector;

  /** True once it is known whether there is NVLS, with its memory. */
  private boolean nvlsIsSettled;

  private final PlanCache cache = new PlanCache();
  private PlannedAlgorithms algorithms = new PlannedAlgorithms();

  /** Plans with operators that users supply. */
  private final Map<Supplied, KernelPlan> supplied = new LastUsedPlans<>(SUPPLIED);

  /** Plans of reductions by users' functions in this rank's memory. */
  private final Map<LocalReduction, KernelPlan> local = new LastUsedPlans<>(SUPPLIED);

  private record Supplied(long shape, long count, ReductionOperator operator) {
    boolean is(long otherShape, long otherCount, ReductionOperator other) {
      return shape == otherShape && count == otherCount && operator.equals(other);
    }
  }

  /** The last of {@link #supplied}, found without a key that is made for it; null before it. */
  private Supplied lastSupplied;

  private KernelPlan lastSuppliedPlan;

  /**
   * The user's rules for plans, the same on all ranks.
   *
   * @param filter the algorithms and protocols that are allowed
   * @param edit of predicted times
   * @param ctas of GPUs' blocks
   * @param lineBytes most bytes of each channel of a GPU's message in LL; negative: by costs
   * @param info log of choices
   */
  public record Rules(
      AlgorithmFilter filter, TunerHook edit, CtaLimits ctas, long lineBytes, InfoLog info) {
    /** Rules by which costs choose the protocol of messages. */
    public Rules(AlgorithmFilter filter, TunerHook edit, CtaLimits ctas, InfoLog info) {
      this(filter, edit, ctas, /* lineBytes= */ -1, info);
    }
  }

  /**
   * A rank's place among the ranks that it plans for.
   *
   * @param ranks who communicates; the same on all ranks
   * @param layout of the connections
   * @param nvls this rank's NVLS
   * @param windows of this rank
   */
  public record Place(
      int rank,
      CommunicatorProfile ranks,
      ConnectionLayout layout,
      NvlsAccess nvls,
      WindowRegistry windows) {}

  /** A planner of a rank's operations. */
  public Planner(KernelCommunicator kernels, Place place, Rules rules) {
    this.kernels = kernels;
    this.ranks = place.ranks;
    this.layout = place.layout;
    this.rules = rules;
    this.nvls = place.nvls;
    Nvls given = nvls.place();
    this.costs = rules.ctas.costs(ranks.costs(given, nvls.speed()), ranks.nRanks());
    this.selector = new AlgorithmSelector(costs, rules.filter, rules.edit);
    this.nvlsIsSettled = given == null || given.isMade();
    this.choices = new MessageChoices(ranks, costs, rules, kernels.hasCopyEngines());
    this.messages = new P2pPlanner(kernels, place.rank, choices, rails(place));
    this.windows = new BufferWindows(kernels, place.windows, ranks);
  }

  /** Null where no all-to-all goes by rails. */
  private static RailExchange rails(Place place) {
    RankPlacement spread = place.ranks.spread();
    return spread.hasRails()
        ? new RailExchange(place.rank, spread.ranks(), place.windows.device())
        : null;
  }

  /** Bytes of the device's memory that its plans hold. Any thread. */
  public long memoryBytes() {
    return messages.memoryBytes();
  }

  /** Frees that memory, once no plan runs. None is made or launched afterwards. */
  public void freeMemory() {
    messages.freeMemory();
  }

  /** Notes the algorithms of its calls where others note theirs, too; before the first plan. */
  public void note(PlannedAlgorithms all) {
    algorithms = all;
  }

  /** The windows that buffers lie in. */
  public BufferWindows windows() {
    return windows;
  }

  /** As {@link CommunicatorProfile#inTables}. */
  public String ranksInTables() {
    return ranks.inTables();
  }

  /** True if the links between the ranks keep lines of LL128 whole, and NCCL_PROTO allows it. */
  public boolean keepsLines() {
    return costs.lineSendBytes(Operation.ALL_TO_ALL) >= 0 && allows(Protocol.LL128);
  }

  /** GB/s that the links take of what a rank sends to the others; 0 if not known. */
  public double bandwidth() {
    return costs.bandwidth();
  }

  /** True if NCCL_PROTO allows lines of LL in an all-to-all. */
  public boolean allowsLines() {
    return allows(Protocol.LL);
  }

  private boolean allows(Protocol protocol) {
    List<Protocol> all = List.of(Protocol.values());
    return rules.filter.protocols(Operation.ALL_TO_ALL, all).contains(protocol);
  }

  /** True if the space for windows is worth making before there is a window. */
  public boolean wantsSpace() {
    Algorithm lines = Algorithm.DIRECT_LL; // needs no windows of the user's
    boolean wanted =
        costs.makesSpaceAhead() && rules.filter.allows(lines)
            || Operation.ofAllRanks().stream()
                .anyMatch(operation -> rules.filter.demands(operation, lines));
    Operation one = Operation.ALL_REDUCE;
    return ranks.reach()
        && windows.arePossible(one)
        && costs.algorithms(one).contains(lines)
        && wanted;
  }

  /**
   * The plan of an operation on buffers.
   *
   * @param shape as {@link CallShape} has it
   */
  @HotPath
  public KernelPlan plan(long shape, DeviceMemory send, DeviceMemory recv, long count) {
    Operation operation = CallShape.operation(shape);
    if (!windows.areUsable(operation)) {
      return plan(shape, count);
    }
    BufferWindows.Found in = windows.find(shape, send, recv, count);
    PlanCache.Entry known = cache.find(shape, count, in.from(), in.to(), in.overlaps(), in.askew());
    if (known == null) {
      known = decide(shape, count, in);
    }
    if (known.plan() == null) {
      return plan(shape, count);
    }
    windows.use(in.from());
    windows.use(in.to());
    return known.plan();
  }

  /** Decides on an operation on buffers in windows that was not called before. */
  private PlanCache.Entry decide(long shape, long count, BufferWindows.Found in) {
    KernelPlan plan = makeBetweenWindows(shape, count, in);
    return cache.put(
        new PlanCache.Entry(shape, count, in.from(), in.to(), in.overlaps(), in.askew(), plan));
  }

  /**
   * Makes the plan of a collective over connections, to be found by its first call. Waits for no
   * other rank: a plan by NVLS that is not made yet is left to the call, which all ranks make.
   */
  public void prepare(long shape, long count) {
    if (nvlsIsSettled || !isByNvls(choose(shape, count).algorithm())) {
      plan(shape, count);
    }
  }

  /**
   * The most blocks of a kernel between windows that is no collective: within the user's limits,
   * and the room that all ranks' GPUs have.
   */
  public int mostBlocks() {
    int most = rules.ctas.mostOfDevice(/* few= */ 0, /* slots= */ false, /* bytes= */ 0);
    int room = ranks.room().mostBlocks();
    return most == 0 ? room : Math.min(most, room);
  }

  /** The most blocks of a kernel that waits for no other rank; 0 for no limit. */
  public int mostLocalBlocks() {
    return rules.ctas.mostOfLocal();
  }

  /**
   * The plan of a step of a quantised sum, the caller's from then on.
   *
   * @param index of this rank's part
   * @param copies as {@link QuantisedWork} has them, like the residual
   */
  public KernelPlan plan(
      QuantisedWork.Step step,
      QuantisedWork.Parts parts,
      int index,
      QuantisedWork.Copies copies,
      DeviceMemory residual) {
    return kernels.prepare(
        new QuantisedWork(step, parts, index, copies, residual, mostLocalBlocks()));
  }

  /**
   * A message of an exchange, in the launch's own buffers.
   *
   * @param sends whether it is sent; else it is received
   * @param peer the other rank
   * @param offset of the data in the send or receive buffer, in bytes
   * @param bytes of the data, more than 0
   */
  public record Message(boolean sends, int peer, long offset, long bytes) {}

  /**
   * The plan of an exchange of messages among some ranks, the caller's from then on.
   *
   * @param shape whose signature the data carry
   * @param part bytes in the signature, the same on all ranks
   * @param steps each begins once this rank's part of the one before has ended
   * @param messages that are under way at once, at most of all ranks
   */
  public KernelPlan plan(long shape, long part, List<List<Message>> steps, int messages) {
    return this.messages.plan(shape, part, steps, messages);
  }

  /**
   * True if predicted times are those of host devices. Where ranks have devices of several kinds
   * they agree on one of them, which need not be this rank's.
   */
  public boolean isOfHosts() {
    return ranks.kind() == Device.Kind.HOST;
  }

  /** As {@link CommunicatorProfile#hierarchicalMargin}. */
  public double hierarchicalMargin() {
    return ranks.hierarchicalMargin();
  }

  /** The ranks of each host; hosts by their lowest rank. */
  public List<List<Integer>> hosts() {
    return ranks.spread().ranks();
  }

  /**
   * True if NCCL_ALGO allows an operation to go hierarchically between hosts.
   *
   * @param asked true if it has to name that way and no other
   */
  public boolean goesHierarchically(Operation operation, boolean asked) {
    return asked
        ? rules.filter.demandsAlone(operation, Algorithm.HIERARCHICAL)
        : rules.filter.allowsByAny(operation, Algorithm.HIERARCHICAL);
  }

  /** As {@link CommunicatorProfile#messages}. */
  public double predictMessages(int near, long nearBytes, int far, long farBytes) {
    return ranks.messages(near, nearBytes, far, farBytes);
  }

  /** The plan of an operation over connections, on the launch's own buffers. */
  @HotPath
  KernelPlan plan(long shape, long count) {
    KernelPlan plan = cache.find(shape, count);
    return plan != null ? plan : cache.put(shape, count, make(shape, count));
  }

  private KernelPlan make(long shape, long count) {
    return CallShape.operation(shape).isCollective()
        ? kernels.prepare(work(shape, count, CallShape.op(shape), algorithm -> true))
        : exchange(shape, count);
  }

  private KernelPlan exchange(long shape, long count) {
    Operation operation = CallShape.operation(shape);
    AlgorithmChoice choice =
        choices.choice(operation, CallShape.bytes(shape, count), CallShape.type(shape));
    algorithms.put(shape, count, choice.algorithm());
    if (choice.algorithm() == Algorithm.RAILS) {
      tell(
          operation.label(),
          CallShape.bytes(shape, count) * operation.wholes(ranks.nRanks()),
          () -> String.format(Locale.ROOT, "%s, predicted %.2f us", choice, choice.microseconds()));
    }
    return messages.plan(shape, count, choice.algorithm());
  }

  /** The plan of an operation that reduces by an operator of its own. */
  public KernelPlan plan(long shape, long count, ReductionOperator operator) {
    if (lastSupplied != null && lastSupplied.is(shape, count, operator)) {
      return lastSuppliedPlan;
    }
    Supplied call = new Supplied(shape, count, operator);
    KernelPlan plan = supplied.get(call);
    if (plan == null) {
      // Choose as for a product, which no switch computes.
      CollectiveWork work = work(shape, count, RedOp.PROD, kernels::reducesByOperator);
      plan = kernels.prepare(work, operator);
      supplied.put(call, plan);
    }
    lastSupplied = call;
    lastSuppliedPlan = plan;
    return plan;
  }

  /**
   * The plan of a reduction of copies in this rank's memory by a user's function.
   *
   * @param type of the elements; UINT8 for structs
   * @param stride bytes from a copy to the next
   * @param count elements of a copy
   */
  public KernelPlan plan(
      ReductionOperator operator, DataType type, int copies, long stride, long count) {
    LocalReduction work =
        new LocalReduction(operator, copies, stride, count, type, mostLocalBlocks());
    KernelPlan plan = local.get(work);
    if (plan == null) {
      plan = kernels.prepare(work);
      local.put(work, plan);
    }
    return plan;
  }

  /** A plan for sends and receives that progress together, each with its own buffer. */
  public KernelPlan plan(List<P2pTask> tasks) {
    return messages.plan(tasks);
  }

  /** The plan of the sends and receives that were planned last. */
  @HotPath
  public KernelPlan planAgain() {
    return messages.planAgain();
  }

  /** The plan between windows; null if the operation goes over connections. */
  private KernelPlan makeBetweenWindows(long shape, long count, BufferWindows.Found in) {
    AlgorithmChoice choice = settled(() -> choose(shape, count, windows.reach(in, !nvlsIsSettled)));
    Algorithm algorithm = choice.algorithm();
    if (!algorithm.isBetweenWindows()) {
      return null;
    }
    algorithms.put(shape, count, algorithm);
    tell(
        CallShape.operation(shape).key(),
        CallShape.bytes(shape, count),
        () -> algorithm.label() + " between windows");
    return kernels.prepare(work(shape, count, choice, in));
  }

  private WindowWork work(long shape, long count, AlgorithmChoice choice, BufferWindows.Found in) {
    Operation operation = CallShape.operation(shape);
    Algorithm algorithm = choice.algorithm();
    long bytes = wholeBytes(shape, count);
    int few = costs.fewestChannels(operation, choice, bytes);
    int full = fullBlocks(algorithm);
    int blocks =
        rules.ctas.limit(costs.channels(operation, choice, bytes), few, /* slots= */ false, bytes);
    int most = rules.ctas.mostOfDevice(few, /* slots= */ false, bytes);
    return new WindowWork(
        operation,
        algorithm,
        CallShape.type(shape),
        CallShape.op(shape),
        CallShape.root(shape),
        count,
        algorithm.needsSend(operation) ? in.from().view() : null,
        algorithm.needsRecv(operation) ? in.to().view() : null,
        full == 0 ? blocks : Math.min(blocks, full), // measured ones are of NVLink
        most == 0 || full == 0 ? Math.max(most, full) : Math.min(most, full),
        rules.ctas.sparing(),
        CallShape.function(shape));
  }

  /**
   * Blocks of an algorithm between windows that fill the paths between GPUs, where those are slower
   * than NVLink; 0 for no limit.
   */
  public int fullBlocks(Algorithm algorithm) {
    return storesBetweenWindows(algorithm) ? rules.ctas.limit(ranks.mostWindowBlocks()) : 0;
  }

  private static boolean storesBetweenWindows(Algorithm algorithm) {
    return algorithm == Algorithm.DIRECT_ONE_SHOT || algorithm == Algorithm.DIRECT_TWO_SHOT;
  }

  /**
   * True if the device has an algorithm and a protocol for an operation of a size, with its buffers
   * in windows where the algorithm needs them. The settings' filter does not count.
   *
   * @param bytes of the whole data
   */
  public boolean has(Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    if (algorithm == Algorithm.PAIRWISE || algorithm == Algorithm.RAILS) {
      return !operation.isCollective()
          && protocol == Protocol.SIMPLE
          && (algorithm == Algorithm.PAIRWISE || costs.algorithms(operation).contains(algorithm));
    }
    return costs.algorithms(operation).contains(algorithm)
        && algorithm.has(protocol)
        && (algorithm.isBetweenWindows()
            ? windows.areUsable(operation) && windows.bestReach().allows(algorithm, operation)
            : costs.protocols().contains(protocol) && costs.has(algorithm, protocol))
        && costs.microseconds(operation, algorithm, protocol, bytes) < Double.POSITIVE_INFINITY;
  }

  /** True if an operation may go by several algorithms: collectives, and all-to-alls by rails. */
  public boolean hasWays(Operation operation) {
    return operation.isCollective() || choices.hasRails(operation);
  }

  /**
   * The facts that the choices for calls of a shape and count depend on.
   *
   * @param selector one as long as the costs stay the same
   * @param reach of the buffers; null where the operation goes over connections
   */
  public record Basis(AlgorithmSelector selector, BufferReach reach) {}

  /** Returns the facts that the choices for a call on these buffers depend on. */
  public Basis basis(long shape, DeviceMemory send, DeviceMemory recv, long count) {
    return new Basis(
        selector,
        windows.areUsable(CallShape.operation(shape))
            ? windows.reach(windows.find(shape, send, recv, count), /* later= */ false)
            : null);
  }

  /**
   * The algorithms and protocols that an operation may go by: first the one of {@link #plan(long,
   * DeviceMemory, DeviceMemory, long)}, then those that it may be measured against, the fastest
   * first, as predicted. The same on all ranks.
   *
   * @param on of its buffers
   */
  public List<AlgorithmChoice> choices(long shape, long count, Basis on) {
    Operation operation = CallShape.operation(shape);
    if (!operation.isCollective()) {
      return choices.choices(operation, CallShape.bytes(shape, count), CallShape.type(shape));
    }
    long whole = wholeBytes(shape, count);
    DataType type = CallShape.type(shape);
    RedOp op = CallShape.op(shape);
    return on.reach == null
        ? on.selector.choices(operation, whole, type, op)
        : on.selector.choices(operation, whole, type, op, on.reach);
  }

  /**
   * Predicted microseconds of an algorithm of {@link #has}; {@link CostModel#ONLY_WHERE_ASKED} or
   * more where nothing is known of them.
   *
   * @param bytes of the whole data
   */
  public double predict(Operation operation, Algorithm algorithm, Protocol protocol, long bytes) {
    return costs.microseconds(operation, algorithm, protocol, bytes);
  }

  /**
   * A plan that takes an algorithm and a protocol of {@link #has} whatever the costs say, for a
   * measurement of them.
   */
  public KernelPlan planBy(
      AlgorithmChoice choice, long shape, DeviceMemory send, DeviceMemory recv, long count) {
    if (choice.algorithm() == Algorithm.PAIRWISE || choice.algorithm() == Algorithm.RAILS) {
      return messages.plan(shape, count, choice.algorithm());
    }
    return choice.algorithm().isBetweenWindows()
        ? kernels.prepare(work(shape, count, choice, windows.find(shape, send, recv, count)))
        : kernels.prepare(work(shape, count, CallShape.op(shape), choice));
  }

  private CollectiveWork work(long shape, long count, RedOp op, Predicate<Algorithm> among) {
    Operation operation = CallShape.operation(shape);
    DataType type = CallShape.type(shape);
    long bytes = wholeBytes(shape, count);
    AlgorithmChoice choice = settled(() -> selector.choose(operation, bytes, type, op, among));
    selector.tellIfExcluded(operation, choice);
    CollectiveWork work = work(shape, count, op, choice);
    algorithms.put(shape, count, choice.algorithm());
    tell(
        operation.label(),
        bytes,
        () ->
            String.format(
                Locale.ROOT,
                "%s on %d channels, predicted %.2f us",
                choice,
                work.nChannels(),
                choice.microseconds()));
    return work;
  }

  private CollectiveWork work(long shape, long count, RedOp op, AlgorithmChoice choice) {
    Operation operation = CallShape.operation(shape);
    long bytes = wholeBytes(shape, count);
    return new CollectiveWork(
        operation,
        choice.algorithm(),
        choice.protocol(),
        CallShape.type(shape),
        op,
        CallShape.root(shape),
        count,
        rules.ctas.channels(
            costs, ranks.spread().channels(choice.algorithm()), operation, choice, bytes),
        costs.chunkBytes(layout, operation, choice, bytes),
        rules.ctas.mostOfDevice(),
        CallShape.function(shape));
  }

  /** Tells of a choice, which is made once for each shape. */
  private void tell(String operation, long bytes, Supplier<String> how) {
    rules.info.tell(
        "TUNING", () -> "runs %s of %d bytes by %s".formatted(operation, bytes, how.get()));
  }

  private long wholeBytes(long shape, long count) {
    DataType type = CallShape.type(shape);
    long most = Long.MAX_VALUE / COPIES / ranks.nRanks() / type.bytes();
    if (count > most) { // not of a call, whose buffers were checked
      throw new InvalidArgumentException(
          ErrorId.COUNT,
          "%s of %d elements of %s on %d ranks has more bytes than can be counted"
              .formatted(CallShape.operation(shape).key(), count, type.label(), ranks.nRanks()),
          "pass 0 to " + most);
    }
    return CallShape.bytes(shape, count) * CallShape.operation(shape).wholes(ranks.nRanks());
  }

  private AlgorithmChoice choose(long shape, long count) {
    return selector.choose(
        CallShape.operation(shape),
        wholeBytes(shape, count),
        CallShape.type(shape),
        CallShape.op(shape));
  }

  private AlgorithmChoice choose(long shape, long count, BufferReach reach) {
    return selector.choose(
        CallShape.operation(shape),
        wholeBytes(shape, count),
        CallShape.type(shape),
        CallShape.op(shape),
        reach);
  }

  /**
   * Makes a choice for an operation that will run. The first one that falls on NVLS has its memory
   * made, and that of windows covered. Then the choice is made again, with what could be made, and
   * with the switch's speed if that was measured. So the choice depends only on whether the ranks
   * could make it and on a speed that lies below the predicted one, which are the same on all.
   */
  private AlgorithmChoice settled(Supplier<AlgorithmChoice> choose) {
    AlgorithmChoice choice = choose.get();
    Algorithm algorithm = choice.algorithm();
    if (nvlsIsSettled || !isByNvls(algorithm)) {
      return choice;
    }
    Optional<Nvls> made = nvls.make();
    nvlsIsSettled = true;
    made.ifPresent(kernels::attach);
    if (made.isEmpty() || nvls.speed().isPresent()) {
      costs = rules.ctas.costs(ranks.costs(made.orElse(null), nvls.speed()), ranks.nRanks());
      selector = new AlgorithmSelector(costs, rules.filter, rules.edit);
    }
    return choose.get();
  }

  private static boolean isByNvls(Algorithm algorithm) {
    return NvlsCostModel.isNvls(algorithm) || algorithm.isMulticast();
  }

  /**
   * Positions of the buffers of an operation that goes straight between windows, for comparing the
   * ranks. Buffers that the algorithm does not need are left out.
   *
   * @param way ordinal of the {@link Algorithm}; -1 if it goes without windows
   * @param send number of the send buffer's window; 0 if it is of no matter
   * @param sendOffset where in it, in bytes
   * @param recv likewise of the receive buffer
   * @param recvOffset likewise
   */
  public record Placement(int way, long send, long sendOffset, long recv, long recvOffset) {
    /** Without windows. */
    public static final Placement NONE = new Placement(-1, 0, 0, 0, 0);
  }

  /** Returns the positions of an operation's buffers; the arguments are those of {@link #plan}. */
  public Placement placement(long shape, DeviceMemory send, DeviceMemory recv, long count) {
    Operation operation = CallShape.operation(shape);
    if (!windows.areUsable(operation) || count == 0) {
      return Placement.NONE;
    }
    BufferWindows.Found in = windows.find(shape, send, recv, count);
    Algorithm way =
        settled(() -> choose(shape, count, windows.reach(in, !nvlsIsSettled))).algorithm();
    if (!way.isBetweenWindows()) {
      return Placement.NONE;
    }
    boolean sends = way.needsSend(operation);
    boolean recvs = way.needsRecv(operation);
    return new Placement(
        way.ordinal(),
        sends ? in.from().number() : 0,
        sends ? send.address() - in.from().view().address() : 0,
        recvs ? in.to().number() : 0,
        recvs ? recv.address() - in.to().view().address() : 0);
  }

  /** Predicted microseconds of an operation over connections. */
  public double predict(long shape, long count) {
    Operation operation = CallShape.operation(shape);
    return operation.isCollective()
        ? choose(shape, count).microseconds()
        : choices.predict(operation, CallShape.bytes(shape, count), CallShape.type(shape));
  }

  /** Returns the choices for an operation, without windows and with windows, as tables to read. */
  public String explain(Operation operation, long count, DataType type) {
    long whole = wholeBytes(shape(operation, type), count);
    String text =
        operation.isCollective()
            ? selector.explain(operation, whole, type)
                + blocks(operation, choice(operation, count, type), whole)
            : messages.explain(operation, whole / operation.wholes(ranks.nRanks()), type);
    if (!windows.arePossible(operation)) {
      return text;
    }
    Optional<AlgorithmChoice> direct = choiceInWindows(operation, count, type);
    return text
        + selector.explainWindows(operation, whole)
        + "  chosen with windows: %s, out of place%n"
            .formatted(direct.map(AlgorithmChoice::toString).orElse("as without"))
        + direct.map(choice -> blocks(operation, choice, whole)).orElse("");
  }

  /** The blocks of a choice, as a line to read; none on devices without blocks. */
  private String blocks(Operation operation, AlgorithmChoice choice, long bytes) {
    boolean engines = choice.algorithm().needsCopyEngines(); // their kernels have their own number
    int full = storesBetweenWindows(choice.algorithm()) ? ranks.mostWindowBlocks() : 0;
    return rules.ctas.equals(CtaLimits.NONE) && full == 0
        ? ""
        : rules.ctas.explain(
            engines ? 0 : costs.channels(operation, choice, bytes),
            costs.fewestChannels(operation, choice, bytes),
            choice.hasSlots(),
            bytes,
            full);
  }

  /** The algorithm and protocol of an operation over connections. */
  public AlgorithmChoice choice(Operation operation, long count, DataType type) {
    long shape = shape(operation, type);
    long whole = wholeBytes(shape, count);
    return operation.isCollective()
        ? selector.choose(operation, whole, type, RedOp.SUM)
        : choices.choice(operation, CallShape.bytes(shape, count), type);
  }

  /**
   * The algorithm of an operation with its buffers in windows, out of place; empty if the operation
   * goes over connections.
   */
  public Optional<AlgorithmChoice> choiceInWindows(Operation operation, long count, DataType type) {
    return windows.arePossible(operation)
        ? Optional.of(choose(shape(operation, type), count, windows.bestReach()))
            .filter(choice -> choice.algorithm().isBetweenWindows())
        : Optional.empty();
  }

  private static long shape(Operation operation, DataType type) {
    return CallShape.of(operation, type, RedOp.SUM, 0);
  }
}
