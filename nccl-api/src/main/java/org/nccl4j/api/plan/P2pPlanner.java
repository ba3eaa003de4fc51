package org.nccl4j.api.plan;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import org.nccl4j.api.plan.algorithm.AlgorithmChoice;
import org.nccl4j.api.plan.algorithm.AlgorithmSelector;
import org.nccl4j.api.plan.algorithm.CostModel;
import org.nccl4j.api.plan.algorithm.CtaLimits;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.DeviceMemory;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.CallSignature;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Plans sends and receives, and the operations that consist of them. */
final class P2pPlanner {
  /** A channel in LL128 carries 7 GB/s over NVLink; in Simple more, but a step takes longer. */
  private static final long LINE_BYTES_OF_CHANNEL = 48 << 10;

  private static final int FEW_CHANNELS = 32;

  /** Smaller messages use kernels: a copy and its two notifications take some 10 us. */
  private static final long LEAST_COPIED = 1 << 20;

  private static final int MOST_GROUPS = 256;

  /** A send and a receive at a time. */
  private static final int BOTH_WAYS = 2;

  private final KernelCommunicator kernels;
  private final int rank;
  private final int nRanks;
  private final CostModel costs;
  private final CtaLimits ctas;
  private final AlgorithmSelector selector;
  private final boolean copies;

  /** Null where no all-to-all goes by rails. */
  private final RailExchange rails;

  /** Plans of groups of sends and receives. */
  private final Map<List<P2pTask>, KernelPlan> groups = new LastUsedPlans<>(MOST_GROUPS);

  private final SeenGroups seen = new SeenGroups();

  /** The group that was planned last, and its plan, which is the last used of all. */
  private final List<P2pTask> last = new ArrayList<>();

  private KernelPlan lastPlan;
  private boolean lastIsKept;

  P2pPlanner(
      KernelCommunicator kernels,
      int rank,
      int nRanks,
      CostModel costs,
      Planner.Rules rules,
      RailExchange rails) {
    this.kernels = kernels;
    this.rank = rank;
    this.nRanks = nRanks;
    this.costs = costs;
    this.ctas = rules.ctas();
    this.rails = rails;
    this.selector = new AlgorithmSelector(costs, rules.filter(), rules.edit());
    this.copies =
        kernels.hasCopyEngines() && rules.filter().demands(Operation.SEND, Algorithm.COPY_ENGINE);
  }

  /**
   * The plan of an operation that consists of sends and receives, on the launch's own buffers.
   *
   * @param algorithm of a {@link #choice}
   */
  KernelPlan plan(long shape, long count, Algorithm algorithm) {
    long bytes = CallShape.bytes(shape, count);
    return algorithm == Algorithm.RAILS
        ? kernels.prepareInSteps(railSteps(shape, bytes))
        : kernels.prepare(works(shape, bytes));
  }

  /** Bytes of the device's memory that it holds. Any thread. */
  long memoryBytes() {
    return rails == null ? 0 : rails.bytes();
  }

  /** Frees that memory. Nothing is planned or launched afterwards. */
  void freeMemory() {
    if (rails != null) {
      rails.close();
    }
  }

  /** The plan of sends and receives that progress together, each with its own buffer. */
  @HotPath
  KernelPlan plan(List<P2pTask> tasks) {
    return isLast(tasks) ? lastPlan : find(tasks);
  }

  /** True if these are the objects that were planned last: callers keep them for later groups. */
  @HotPath
  @SuppressWarnings("ReferenceEquality")
  private boolean isLast(List<P2pTask> tasks) {
    int n = tasks.size();
    boolean same = n == last.size() && n > 0;
    for (int t = 0; t < n && same; t++) {
      same = tasks.get(t) == last.get(t);
    }
    return same;
  }

  private KernelPlan find(List<P2pTask> tasks) {
    KernelPlan plan = groups.get(tasks);
    boolean kept = plan != null;
    if (!kept) {
      plan = make(tasks);
      kept = !keepsBuffers(tasks) || seen.add(tasks);
      if (kept) {
        groups.put(new ArrayList<>(tasks), plan); // two of these compare without an iterator
      }
    }
    if (lastPlan != null && !lastIsKept) {
      lastPlan.discard();
    }
    lastPlan = plan;
    lastIsKept = kept;
    last.clear();
    for (int t = 0; t < tasks.size(); t++) { // unlike addAll, this allocates nothing
      last.add(tasks.get(t));
    }
    return plan;
  }

  /**
   * True if a plan keeps the memory of the group's buffers, as on the host. A program may have a
   * new buffer for each message, so such a plan is kept only for a group that comes again.
   */
  private static boolean keepsBuffers(List<P2pTask> tasks) {
    for (P2pTask task : tasks) {
      if (task.buffer() != null && task.buffer().device().kind() == Device.Kind.HOST) {
        return true;
      }
    }
    return false;
  }

  private KernelPlan make(List<P2pTask> tasks) {
    List<P2pWork> works = new ArrayList<>();
    for (P2pTask task : tasks) {
      works.add(
          new P2pWork(
                  task.sends() ? P2pWork.Kind.SEND : P2pWork.Kind.RECV,
                  task.peer(),
                  task.buffer(),
                  0,
                  task.bytes(),
                  sendProtocol(Operation.SEND, task.bytes()),
                  task.offer(),
                  isCopied(task.bytes()))
              .onAtMost(ctas.channels(BOTH_WAYS)));
    }
    return kernels.prepare(works);
  }

  /** Predicted microseconds of an operation that consists of sends and receives. */
  double predict(Operation operation, long bytes, DataType type) {
    return choice(operation, bytes, type).microseconds();
  }

  /** True if messages of an operation can go by rails. */
  boolean hasRails(Operation operation) {
    return rails != null && Algorithm.RAILS.has(operation);
  }

  private double predictPairwise(Operation operation, long bytes) {
    Protocol protocol = sendProtocol(operation, bytes);
    // A send is a step of a ring. An exchange with all ranks sends one message after the other.
    double step =
        costs.microseconds(Operation.ALL_GATHER, Algorithm.RING, protocol, bytes * nRanks)
            / Math.max(1, nRanks - 1);
    return operation.isP2p() ? step : step * Math.max(1, nRanks - 1);
  }

  /**
   * The algorithm of an operation, and the protocol of its messages, those to other hosts by rails;
   * the copy engines where they carry the messages.
   */
  AlgorithmChoice choice(Operation operation, long bytes, DataType type) {
    Algorithm without = isCopied(bytes) ? Algorithm.COPY_ENGINE : Algorithm.PAIRWISE;
    if (!hasRails(operation)) {
      return new AlgorithmChoice(
          without, sendProtocol(operation, bytes), predictPairwise(operation, bytes));
    }
    AlgorithmChoice choice = selector.chooseExchange(operation, bytes * nRanks, type);
    boolean byRails = choice.algorithm() == Algorithm.RAILS;
    return new AlgorithmChoice(
        byRails ? Algorithm.RAILS : without,
        sendProtocol(operation, byRails ? rails.messageBytes(bytes) : bytes),
        choice.microseconds() < CostModel.ONLY_WHERE_ASKED
            ? choice.microseconds()
            : predictPairwise(operation, bytes));
  }

  /**
   * The ways of an operation that may be measured against each other: first the one of {@link
   * #choice}. One alone where nothing is known of the other, or the settings do not allow it.
   *
   * @param bytes of a part
   */
  List<AlgorithmChoice> choices(Operation operation, long bytes, DataType type) {
    AlgorithmChoice chosen = choice(operation, bytes, type);
    return hasRails(operation) && isExchange(chosen.algorithm())
        ? selector.exchanges(operation, bytes * nRanks, type).stream()
            .filter(
                choice ->
                    choice.algorithm() == chosen.algorithm()
                        || choice.microseconds() < CostModel.ONLY_WHERE_ASKED)
            .toList()
        : List.of(chosen);
  }

  private static boolean isExchange(Algorithm algorithm) {
    return algorithm == Algorithm.PAIRWISE || algorithm == Algorithm.RAILS;
  }

  /** Returns the limits of protocols, and the choice where there are rails, as lines to read. */
  String explain(Operation operation, long bytes, DataType type) {
    return explain(operation) + (hasRails(operation) ? explainRails(operation, bytes, type) : "");
  }

  private String explainRails(Operation operation, long bytes, DataType type) {
    StringBuilder text = new StringBuilder();
    for (Algorithm algorithm : List.of(Algorithm.PAIRWISE, Algorithm.RAILS)) {
      boolean byRails = algorithm == Algorithm.RAILS;
      double time = costs.microseconds(operation, algorithm, Protocol.SIMPLE, bytes * nRanks);
      text.append(
          String.format(
              Locale.ROOT,
              "  %-8s %s, messages from each rank to other hosts: %d of %d bytes%n",
              algorithm.label(),
              time < CostModel.ONLY_WHERE_ASKED
                  ? String.format(
                      Locale.ROOT,
                      "%12.2f us  %s",
                      time,
                      costs.source(operation, algorithm, Protocol.SIMPLE))
                  : "not measured: used only if NCCL_ALGO names it",
              rails.farMessages(byRails),
              byRails ? rails.messageBytes(bytes) : bytes));
    }
    return text.append(
            "  chosen: %s, the cheapest that is allowed%n"
                .formatted(choice(operation, bytes, type).algorithm().label()))
        .toString();
  }

  private String explain(Operation operation) {
    return "%s consists of sends and receives: %s up to %d bytes each, else Simple%s%n"
        .formatted(
            operation.key(),
            costs.smallSendProtocol().label(),
            costs.smallSendBytes(operation),
            copies ? "; copy engines from %d bytes on".formatted(LEAST_COPIED) : "");
  }

  private List<P2pWork> works(long shape, long bytes) {
    Operation operation = CallShape.operation(shape);
    int root = CallShape.root(shape);
    List<P2pWork> works = new ArrayList<>();
    switch (operation) {
      case SEND -> works.add(work(operation, true, root, 0, bytes));
      case RECV -> works.add(work(operation, false, root, 0, bytes));
      case ALL_TO_ALL -> {
        for (int distance = 0; distance < nRanks; distance++) {
          int to = (rank + distance) % nRanks;
          int from = (rank - distance + nRanks) % nRanks;
          works.add(work(operation, true, to, to * bytes, bytes));
          works.add(work(operation, false, from, from * bytes, bytes));
        }
      }
      case GATHER -> {
        works.add(work(operation, true, root, 0, bytes));
        for (int from = 0; rank == root && from < nRanks; from++) {
          works.add(work(operation, false, from, from * bytes, bytes));
        }
      }
      case SCATTER -> {
        for (int to = 0; rank == root && to < nRanks; to++) {
          works.add(work(operation, true, to, to * bytes, bytes));
        }
        works.add(work(operation, false, root, 0, bytes));
      }
      default -> throw new IllegalArgumentException(operation.key());
    }
    complete(works, shape, bytes, messages(operation));
    return works;
  }

  private List<List<P2pWork>> railSteps(long shape, long bytes) {
    Operation operation = CallShape.operation(shape);
    List<List<P2pWork>> steps =
        rails.steps(
            bytes,
            (sends, peer, buffer, offset, size) ->
                work(operation, sends, peer, buffer, offset, size));
    steps.forEach(works -> complete(works, shape, bytes, rails.messages()));
    return steps;
  }

  /**
   * Gives the messages of an operation its signature, and the channels that it may have.
   *
   * @param bytes of a part
   * @param messages that are under way at once, at most of all ranks
   */
  private void complete(List<P2pWork> works, long shape, long bytes, int messages) {
    Operation operation = CallShape.operation(shape);
    if (operation.isOfAllRanks()) {
      int signature =
          CallSignature.ofPart(operation, CallShape.root(shape), bytes, CallShape.function(shape));
      works.replaceAll(work -> work.signed(signature));
    }
    int channels = ctas.channels(messages);
    works.replaceAll(work -> work.onAtMost(channels));
  }

  /** To and from other ranks, and the copy of a rank's own part; at most of all ranks. */
  private int messages(Operation operation) {
    int others = nRanks - 1;
    return switch (operation) {
      case ALL_TO_ALL -> 2 * others + 1;
      case GATHER, SCATTER -> others + 1;
      default -> BOTH_WAYS; // as in a group with others, whose sizes differ from rank to rank
    };
  }

  private P2pWork work(Operation operation, boolean sends, int peer, long offset, long bytes) {
    return work(operation, sends, peer, /* buffer= */ null, offset, bytes);
  }

  private P2pWork work(
      Operation operation, boolean sends, int peer, DeviceMemory buffer, long offset, long bytes) {
    Protocol protocol = sendProtocol(operation, bytes);
    P2pWork.Kind kind = sends ? P2pWork.Kind.SEND : P2pWork.Kind.RECV;
    return new P2pWork(kind, peer, buffer, offset, bytes, protocol, null, isCopied(bytes));
  }

  /** True if copy engines do a message; the same at both ends. */
  private boolean isCopied(long bytes) {
    return copies && bytes >= LEAST_COPIED;
  }

  private Protocol sendProtocol(Operation operation, long bytes) {
    if (bytes <= costs.smallSendBytes(operation)) {
      return costs.smallSendProtocol();
    }
    return bytes <= lineSendBytes(operation) ? Protocol.LL128 : Protocol.SIMPLE;
  }

  /** Most bytes of a send in LL128; few blocks carry less in it than in Simple. */
  private long lineSendBytes(Operation operation) {
    long most = costs.lineSendBytes(operation);
    int channels = ctas.channels(messages(operation));
    return channels == 0 || channels >= FEW_CHANNELS
        ? most
        : Math.min(most, channels * LINE_BYTES_OF_CHANNEL);
  }
}
