package org.nccl4j.api.plan;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Predicate;
import org.nccl4j.api.settings.InfoLog;
import org.nccl4j.device.DataType;
import org.nccl4j.device.HotPath;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.ReductionOperator;
import org.nccl4j.device.kernel.Algorithm;
import org.nccl4j.device.kernel.AlgorithmFilter;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.CallSignature;
import org.nccl4j.device.kernel.CollectiveWork;
import org.nccl4j.device.kernel.ConnectionLayout;
import org.nccl4j.device.kernel.KernelCommunicator;
import org.nccl4j.device.kernel.KernelPlan;
import org.nccl4j.device.kernel.Nvls;
import org.nccl4j.device.kernel.Operation;
import org.nccl4j.device.kernel.P2pWork;
import org.nccl4j.device.kernel.Protocol;

/**
 * Turns operations into kernel plans. Every rank decides alike, from what all of them know. Used by
 * one thread at a time.
 */
public final class Planner {
  /** Smaller messages go by kernels: a copy and its two tellings take some 10 us. */
  private static final long LEAST_COPIED = 1 << 20;

  private static final int MOST_GROUPS = 256;

  private static final int SUPPLIED = 64;

  /** A send and a receive at a time. */
  private static final int BOTH_WAYS = 2;

  private final KernelCommunicator kernels;
  private final int rank;
  private final int nRanks;
  private final ConnectionLayout layout;
  private final CostModel costs;
  private final AlgorithmSelector chooser;
  private final CtaLimits ctas;
  private final InfoLog info;
  private final boolean copies;

  /** Number of channels that all connections of all ranks have. */
  private final int channels;

  private final PlanCache cache = new PlanCache();

  /** Plans of groups of sends and receives. */
  private final Map<List<P2pTask>, KernelPlan> groups = new LastUsed<>(MOST_GROUPS);

  /** Plans by operators that users supply. */
  private final Map<Supplied, KernelPlan> supplied = new LastUsed<>(SUPPLIED);

  /** The plans that were used last; who comes to be one too many is discarded. */
  private static final class LastUsed<K> extends LinkedHashMap<K, KernelPlan> {
    private static final long serialVersionUID = 1L;
    private final int most;

    LastUsed(int most) {
      super(16, 0.75f, /* accessOrder= */ true);
      this.most = most;
    }

    @Override
    protected boolean removeEldestEntry(Map.Entry<K, KernelPlan> eldest) {
      if (size() > most) {
        eldest.getValue().discard();
        return true;
      }
      return false;
    }
  }

  private record Supplied(long shape, long count, ReductionOperator operator) {}

  /**
   * The user's rules for plans, the same on all ranks.
   *
   * @param filter the algorithms and protocols that are allowed
   * @param edit of predicted times
   * @param ctas of GPUs' blocks
   * @param info where choices are told of
   */
  public record Rules(AlgorithmFilter filter, TunerHook edit, CtaLimits ctas, InfoLog info) {}

  /**
   * A planner.
   *
   * @param ranks who communicates; all of them alike for all ranks
   * @param nvls this rank's place in NVLS, or null
   */
  public Planner(
      KernelCommunicator kernels,
      int rank,
      CommunicatorProfile ranks,
      ConnectionLayout layout,
      Nvls nvls,
      Rules rules) {
    this.kernels = kernels;
    this.rank = rank;
    this.nRanks = ranks.nRanks();
    this.layout = layout;
    this.costs = ranks.costs(nvls);
    this.chooser = new AlgorithmSelector(costs, rules.filter, rules.edit);
    this.ctas = rules.ctas;
    this.info = rules.info;
    this.copies =
        kernels.hasCopyEngines() && rules.filter.demands(Operation.SEND, Algorithm.COPY_ENGINE);
    this.channels = ranks.spread().channels();
  }

  /**
   * The plan of an operation on the launch's own buffers.
   *
   * @param shape as {@link CallShape} has it
   */
  @HotPath
  public KernelPlan plan(long shape, long count) {
    KernelPlan plan = cache.find(shape, count);
    return plan != null
        ? plan
        : cache.put(new PlanCache.Entry(shape, count, make(shape, count))).plan();
  }

  private KernelPlan make(long shape, long count) {
    return CallShape.operation(shape).isCollective()
        ? kernels.prepare(work(shape, count, CallShape.op(shape), algorithm -> true))
        : kernels.prepare(works(shape, CallShape.bytes(shape, count)));
  }

  /** The plan of an operation that reduces by an operator of its own. */
  public KernelPlan plan(long shape, long count, ReductionOperator operator) {
    Supplied call = new Supplied(shape, count, operator);
    KernelPlan plan = supplied.get(call);
    if (plan == null) {
      // Choose as for a product, which no switch computes.
      CollectiveWork work = work(shape, count, RedOp.PROD, kernels::reducesByOperator);
      plan = kernels.prepare(work, operator);
      supplied.put(call, plan);
    }
    return plan;
  }

  /** Predicted microseconds of an operation. */
  public double predict(long shape, long count) {
    Operation operation = CallShape.operation(shape);
    long bytes = CallShape.bytes(shape, count);
    if (operation.isCollective()) {
      return microseconds(shape, count);
    }
    Protocol protocol = sendProtocol(operation, bytes);
    // A send is a step of a ring. An exchange with all ranks sends one message after the other.
    double step =
        costs.microseconds(Operation.ALL_GATHER, Algorithm.RING, protocol, bytes * nRanks)
            / Math.max(1, nRanks - 1);
    return switch (operation) {
      case SEND, RECV -> step;
      default -> step * Math.max(1, nRanks - 1);
    };
  }

  /** A plan for sends and receives that progress together, each with its own buffer. */
  public KernelPlan plan(List<P2pTask> tasks) {
    KernelPlan known = groups.get(tasks);
    if (known != null) {
      return known;
    }
    KernelPlan made = make(tasks);
    groups.put(new ArrayList<>(tasks), made); // two of these compare without an iterator
    return made;
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

  private CollectiveWork work(long shape, long count, RedOp op, Predicate<Algorithm> among) {
    Operation operation = CallShape.operation(shape);
    DataType type = CallShape.type(shape);
    long bytes = wholeBytes(operation, count, type);
    AlgorithmChoice choice = chooser.choose(operation, bytes, type, op, among);
    int taken = channels(operation, choice, bytes);
    tell(
        operation.label(),
        bytes,
        "%s on %d channels, in %.2f us as predicted"
            .formatted(choice, taken, choice.microseconds()));
    return new CollectiveWork(
        operation,
        choice.algorithm(),
        choice.protocol(),
        type,
        op,
        CallShape.root(shape),
        count,
        taken,
        costs.chunkBytes(layout, operation, choice, bytes),
        ctas.mostOfDevice());
  }

  /** Tells of a choice, which is made once for each shape. */
  void tell(String operation, long bytes, String how) {
    info.tell("TUNING", () -> "does %s of %d bytes by %s".formatted(operation, bytes, how));
  }

  /** NVLS has the channels that its buffers were made for. */
  private int channels(Operation operation, AlgorithmChoice choice, long bytes) {
    int wanted = costs.channels(operation, choice, bytes);
    return choice.algorithm() == Algorithm.NVLS ? wanted : Math.min(channels, ctas.limit(wanted));
  }

  private long wholeBytes(Operation operation, long count, DataType type) {
    return count * type.bytes() * operation.wholes(nRanks);
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
    if (operation.isOfAllRanks()) {
      int signature = CallSignature.ofPart(operation, root, bytes);
      works.replaceAll(work -> work.signed(signature));
    }
    int channels = ctas.channels(messages(operation));
    works.replaceAll(work -> work.onAtMost(channels));
    return works;
  }

  /** To and from other ranks, at most of all ranks. */
  private int messages(Operation operation) {
    int others = Math.max(1, nRanks - 1);
    return switch (operation) {
      case ALL_TO_ALL -> 2 * others;
      case GATHER, SCATTER -> others;
      default -> BOTH_WAYS; // as in a group with others, whose sizes differ from rank to rank
    };
  }

  private P2pWork work(Operation operation, boolean sends, int peer, long offset, long bytes) {
    Protocol protocol = sendProtocol(operation, bytes);
    P2pWork.Kind kind = sends ? P2pWork.Kind.SEND : P2pWork.Kind.RECV;
    return new P2pWork(kind, peer, null, offset, bytes, protocol, null, isCopied(bytes));
  }

  /** Predicted microseconds of an operation that has algorithms, else NaN. */
  double microseconds(long shape, long count) {
    Operation operation = CallShape.operation(shape);
    DataType type = CallShape.type(shape);
    return !operation.isCollective()
        ? Double.NaN
        : chooser
            .choose(operation, wholeBytes(operation, count, type), type, CallShape.op(shape))
            .microseconds();
  }

  /** Returns the choice for an operation, as a table to read. */
  public String explain(Operation operation, long count, DataType type) {
    if (!operation.isCollective()) {
      return "%s is made of sends and receives: %s up to %d bytes each, else Simple%s%n"
          .formatted(
              operation.key(),
              costs.smallSendProtocol().label(),
              costs.smallSendBytes(operation),
              copies ? "; copy engines from %d bytes on".formatted(LEAST_COPIED) : "");
    }
    return chooser.explain(operation, wholeBytes(operation, count, type), type);
  }

  /** The algorithm and protocol of an operation. */
  public AlgorithmChoice choice(Operation operation, long count, DataType type) {
    long shape = CallShape.of(operation, type, RedOp.SUM, 0);
    if (!operation.isCollective()) {
      long bytes = count * type.bytes();
      return new AlgorithmChoice(
          isCopied(bytes) ? Algorithm.COPY_ENGINE : Algorithm.PAIRWISE,
          sendProtocol(operation, bytes),
          predict(shape, count));
    }
    return chooser.choose(operation, wholeBytes(operation, count, type), type, RedOp.SUM);
  }

  /** True if copy engines do a message; the same at both ends. */
  private boolean isCopied(long bytes) {
    return copies && bytes >= LEAST_COPIED;
  }

  private Protocol sendProtocol(Operation operation, long bytes) {
    if (bytes <= costs.smallSendBytes(operation)) {
      return costs.smallSendProtocol();
    }
    return bytes <= costs.lineSendBytes(operation) ? Protocol.LL128 : Protocol.SIMPLE;
  }
}
