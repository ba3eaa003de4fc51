package org.nccl4j.api.plan;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
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
  private static final int MOST_GROUPS = 256;

  private final KernelCommunicator kernels;
  private final int rank;
  private final int nRanks;
  private final MessageChoices choices;

  /** Null where no all-to-all goes by rails. */
  private final RailExchange rails;

  /** Plans of groups of sends and receives. */
  private final Map<List<P2pTask>, KernelPlan> groups = new LastUsedPlans<>(MOST_GROUPS);

  private final SeenGroups seen = new SeenGroups();

  /** The group that was planned last, and its plan, which is the last used of all. */
  private final List<P2pTask> last = new ArrayList<>();

  private KernelPlan lastPlan;
  private boolean lastIsKept;
  private boolean lastCameAgain;

  /**
   * A planner of a rank's messages.
   *
   * @param rails null where no all-to-all goes by rails
   */
  P2pPlanner(KernelCommunicator kernels, int rank, MessageChoices choices, RailExchange rails) {
    this.kernels = kernels;
    this.rank = rank;
    this.nRanks = choices.nRanks();
    this.choices = choices;
    this.rails = rails;
  }

  /**
   * The plan of an operation that consists of sends and receives, on the launch's own buffers.
   *
   * @param algorithm of a {@link MessageChoices#choice}
   */
  KernelPlan plan(long shape, long count, Algorithm algorithm) {
    long bytes = CallShape.bytes(shape, count);
    return algorithm == Algorithm.RAILS
        ? kernels.prepareInSteps(railSteps(shape, bytes))
        : kernels.prepare(works(shape, bytes));
  }

  /** The plan of an exchange among some ranks, as {@link Planner} has it. */
  KernelPlan plan(long shape, long part, List<List<Planner.Message>> steps, int messages) {
    List<List<P2pWork>> works = new ArrayList<>();
    for (List<Planner.Message> step : steps) {
      List<P2pWork> of = new ArrayList<>();
      for (Planner.Message message : step) {
        of.add(
            work(
                Operation.ALL_TO_ALL,
                message.sends(),
                message.peer(),
                message.offset(),
                message.bytes()));
      }
      complete(of, shape, part, messages);
      works.add(of);
    }
    return works.size() == 1 ? kernels.prepare(works.get(0)) : kernels.prepareInSteps(works);
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
    return isLast(tasks) ? planAgain() : find(tasks);
  }

  /** The plan of the tasks that were planned last. */
  @HotPath
  KernelPlan planAgain() {
    lastCameAgain = true;
    return lastPlan;
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
    if (lastPlan != null && !lastIsKept && (lastCameAgain || last.equals(tasks))) {
      keep(last, lastPlan);
      lastIsKept = true;
    }
    KernelPlan plan = groups.get(tasks);
    boolean kept = plan != null;
    if (!kept) {
      plan = make(tasks);
      kept = !keepsBuffers(tasks) || seen.add(tasks);
      if (kept) {
        keep(tasks, plan);
      }
    }
    if (lastPlan != null && !lastIsKept) {
      lastPlan.discard();
    }
    lastPlan = plan;
    lastIsKept = kept;
    lastCameAgain = false;
    last.clear();
    for (int t = 0; t < tasks.size(); t++) { // unlike addAll, this allocates nothing
      last.add(tasks.get(t));
    }
    return plan;
  }

  private void keep(List<P2pTask> tasks, KernelPlan plan) {
    groups.put(new ArrayList<>(tasks), plan); // two of these compare without an iterator
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
                  choices.protocol(Operation.SEND, task.bytes()),
                  task.offer(),
                  choices.isCopied(task.bytes()))
              .onAtMost(choices.channels(choices.messages(Operation.SEND), rank, task.peer())));
    }
    return kernels.prepare(works);
  }

  /** Returns the limits of protocols, and the choice where there are rails, as lines to read. */
  String explain(Operation operation, long bytes, DataType type) {
    String text = choices.explain(operation);
    return choices.hasRails(operation) ? text + explainRails(operation, bytes, type) : text;
  }

  private String explainRails(Operation operation, long bytes, DataType type) {
    StringBuilder text = new StringBuilder();
    for (Algorithm algorithm : List.of(Algorithm.PAIRWISE, Algorithm.RAILS)) {
      boolean byRails = algorithm == Algorithm.RAILS;
      text.append(
          "  %-8s %s, messages from each rank to other hosts: %d of %d bytes%n"
              .formatted(
                  algorithm.label(),
                  choices.explain(operation, algorithm, bytes),
                  rails.farMessages(byRails),
                  byRails ? choices.railBytes(bytes) : bytes));
    }
    return text.append(
            "  chosen: %s, the cheapest that is allowed%n"
                .formatted(choices.choice(operation, bytes, type).algorithm().label()))
        .toString();
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
    complete(works, shape, bytes, choices.messages(operation));
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
    works.replaceAll(work -> work.onAtMost(choices.channels(messages, rank, work.peer())));
  }

  private P2pWork work(Operation operation, boolean sends, int peer, long offset, long bytes) {
    return work(operation, sends, peer, /* buffer= */ null, offset, bytes);
  }

  private P2pWork work(
      Operation operation, boolean sends, int peer, DeviceMemory buffer, long offset, long bytes) {
    Protocol protocol = choices.protocol(operation, bytes);
    P2pWork.Kind kind = sends ? P2pWork.Kind.SEND : P2pWork.Kind.RECV;
    return new P2pWork(kind, peer, buffer, offset, bytes, protocol, null, choices.isCopied(bytes));
  }
}
