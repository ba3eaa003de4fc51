package org.nccl4j.api.group;

import java.util.List;
import java.util.Locale;
import org.nccl4j.api.plan.Planner;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.kernel.CallShape;
import org.nccl4j.device.kernel.HostGrid;
import org.nccl4j.device.kernel.QuantisedWork;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;

/**
 * The ways of one rank's quantised sums: all ranks exchange with all, or go hierarchically. The
 * choice is by predicted times, which are the same on all ranks.
 */
final class QuantisedWays {
  /** Of the host's steps of an all-reduce for each element, as measured; docs/benchmarks. */
  private static final double HOST_NANOS = 9;

  private static final double NANOS_PER_MICRO = 1000;

  /** The steps of a reduce-scatter take this share of the time of those of an all-reduce. */
  private static final double SCATTER_SHARE = 0.6;

  /**
   * Bytes of elements that a GPU's steps of an all-reduce go through in a microsecond, as measured
   * on H100.
   */
  private static final double GPU_BYTES_PER_MICRO = 570_000;

  /** Microseconds of a step of a GPU without elements. */
  private static final double GPU_LAUNCH = 3;

  private final QuantisedSums.How how;
  private final int rank;
  private final int nRanks;
  private Planner planner;

  QuantisedWays(QuantisedSums.How how, int rank, int nRanks) {
    this.how = how;
    this.rank = rank;
    this.nRanks = nRanks;
  }

  /** Sets what predicts from now on. */
  void attach(Planner newPlanner) {
    planner = newPlanner;
  }

  /** Returns the layout of a call's parts. */
  QuantisedWork.Parts parts(long shape, long count) {
    boolean all = CallShape.operation(shape) == Operation.ALL_REDUCE;
    long blocks = (count + how.block() - 1) / how.block();
    return new QuantisedWork.Parts(
        CallShape.type(shape),
        how.format(),
        how.block(),
        CallShape.op(shape) == RedOp.AVG ? nRanks : 1,
        nRanks,
        all ? (blocks + nRanks - 1) / nRanks * how.block() : count,
        elements(shape, count));
  }

  private long elements(long shape, long count) {
    return CallShape.operation(shape) == Operation.ALL_REDUCE ? count : count * nRanks;
  }

  private static long allToAllShape() {
    return CallShape.of(Operation.ALL_TO_ALL, DataType.UINT8, RedOp.SUM, 0);
  }

  private static long allGatherShape() {
    return CallShape.of(Operation.ALL_GATHER, DataType.UINT8, RedOp.SUM, 0);
  }

  /** The hierarchical way, where calls of a shape and count go by it; else null. */
  HierarchicalSum way(long shape, long count) {
    HierarchicalSum way = possibleWay(shape, count);
    return way != null
            && (planner.goesHierarchically(CallShape.operation(shape), /* asked= */ true)
                || hierarchical(way, shape, count).sum() < flat(shape, count).sum())
        ? way
        : null;
  }

  /** The hierarchical way, where the ranks have it and NCCL_ALGO allows it; else null. */
  private HierarchicalSum possibleWay(long shape, long count) {
    Operation operation = CallShape.operation(shape);
    return HostGrid.isGrid(planner.hosts())
            && planner.goesHierarchically(operation, /* asked= */ false)
        ? new HierarchicalSum(
            HostGrid.of(planner.hosts(), rank),
            parts(shape, count),
            operation == Operation.REDUCE_SCATTER)
        : null;
  }

  /** Returns the predicted microseconds of a call. */
  double predict(long shape, long count) {
    HierarchicalSum way = way(shape, count);
    return way == null ? flat(shape, count).sum() : hierarchical(way, shape, count).sum();
  }

  /**
   * Predicted microseconds of a call whose ranks exchange with all.
   *
   * @param allGather 0 where there is none
   * @param ownSteps on the rank's own memory
   */
  private record FlatTimes(double allToAll, double allGather, double ownSteps) {
    double sum() {
      return allToAll + allGather + ownSteps;
    }
  }

  private FlatTimes flat(long shape, long count) {
    long bytes = parts(shape, count).bytes();
    boolean all = CallShape.operation(shape) == Operation.ALL_REDUCE;
    return new FlatTimes(
        planner.predict(allToAllShape(), bytes),
        all ? planner.predict(allGatherShape(), bytes) : 0,
        ownSteps(shape, count));
  }

  /**
   * Predicted microseconds of a call that goes hierarchically.
   *
   * @param ownSteps on the rank's own memory, and launches
   * @param margin the factor of the sum: more than 1 where the way was not measured
   */
  private record HierarchicalTimes(HierarchicalSum.Times messages, double ownSteps, double margin) {
    double sum() {
      return (messages.sum() + ownSteps) * margin;
    }
  }

  private HierarchicalTimes hierarchical(HierarchicalSum way, long shape, long count) {
    double launches = planner.isOfHosts() ? 0 : (way.scatters() ? 2 : 3) * GPU_LAUNCH;
    return new HierarchicalTimes(
        way.times(planner), ownSteps(shape, count) + launches, planner.hierarchicalMargin());
  }

  /** Predicted microseconds of the steps on a rank's own memory, the same on all ranks. */
  private double ownSteps(long shape, long count) {
    boolean all = CallShape.operation(shape) == Operation.ALL_REDUCE;
    long elements = elements(shape, count);
    double passes = all ? 1 : SCATTER_SHARE;
    return planner.isOfHosts()
        ? passes * elements * HOST_NANOS / NANOS_PER_MICRO
        : passes * elements * CallShape.type(shape).bytes() / GPU_BYTES_PER_MICRO
            + (all ? 2 + 1 : 2) * GPU_LAUNCH;
  }

  /** Returns the bytes and predicted time beside those of the plain operation, as lines to read. */
  String explain(Operation operation, long count, DataType type) {
    long shape = CallShape.of(operation, type, RedOp.SUM, 0);
    FlatTimes flat = flat(shape, count);
    HierarchicalSum way = way(shape, count);
    double time = way == null ? flat.sum() : hierarchical(way, shape, count).sum();
    double plain = planner.predict(shape, count);
    boolean all = operation == Operation.ALL_REDUCE;
    long others = nRanks - 1L;
    long sent = (all ? 2 : 1) * others * parts(shape, count).bytes();
    long plainSent = (all ? 2 * others * count / nRanks : others * count) * type.bytes();
    String bytes =
        planner.hosts().size() > 1
            ? ""
            : ": %d bytes from each rank, %d without".formatted(sent, plainSent);
    return String.format(
        Locale.ROOT,
        "%s quantised as %s with a scale for every %d elements%s%n"
            + "  all-to-all %.2f us%s, own steps %.2f us, together %.2f us as predicted;"
            + " without %.2f us%n%s  %s%n",
        operation.key(),
        how.format().label(),
        how.block(),
        bytes,
        flat.allToAll,
        all ? String.format(Locale.ROOT, ", all-gather %.2f us", flat.allGather) : "",
        flat.ownSteps,
        flat.sum(),
        plain,
        planner.hosts().size() > 1 ? betweenHosts(shape, count) : "",
        time < plain ? "it pays" : "it does not pay: call it without CallOptions.withQuantisation");
  }

  /** Returns what each host sends to others, by each way, as lines to read. */
  private String betweenHosts(long shape, long count) {
    HierarchicalSum possible = possibleWay(shape, count);
    String text =
        "  bytes from a host to others: %s by the all-to-all%s, %s without%s%n"
            .formatted(
                flatBytes(shape, count),
                CallShape.operation(shape) == Operation.ALL_REDUCE
                    ? " and the all-gather" + byRings(gatherAlgorithm(shape, count))
                    : "",
                plainBytes(shape, count),
                byRings(plainAlgorithm(shape, count)));
    if (possible == null) {
      return text;
    }
    HierarchicalTimes times = hierarchical(possible, shape, count);
    return text
        + String.format(
            Locale.ROOT,
            "  hierarchically %d: within hosts %.2f us, between them %.2f us%s, own steps %.2f us,"
                + " together %.2f us as predicted%s%n  chosen: %s%n",
            possible.bytesBetweenHosts(),
            times.messages.toOwners(),
            times.messages.between(),
            possible.scatters()
                ? ""
                : String.format(Locale.ROOT, ", within them %.2f us", times.messages.toAll()),
            times.ownSteps,
            times.sum(),
            times.margin > 1 ? ", a third added as it is not measured between hosts" : "",
            way(shape, count) != null ? "hierarchically" : "the all-to-all");
  }

  /** Bytes of the host that sends most: of an all-to-all by pairs or rails, and of a gather. */
  private long flatBytes(long shape, long count) {
    long part = parts(shape, count).bytes();
    long most =
        planner.hosts().stream().mapToLong(List::size).map(m -> m * (nRanks - m)).max().orElse(0);
    long gathered =
        CallShape.operation(shape) == Operation.ALL_REDUCE
            ? gathered(part, gatherAlgorithm(shape, count))
            : 0;
    return (long) ((double) most * part) + gathered; // of huge counts it has no more digits
  }

  private Algorithm gatherAlgorithm(long shape, long count) {
    long part = parts(shape, count).bytes();
    return planner.choice(Operation.ALL_GATHER, part, DataType.UINT8).algorithm();
  }

  private Algorithm plainAlgorithm(long shape, long count) {
    return planner.choice(CallShape.operation(shape), count, CallShape.type(shape)).algorithm();
  }

  /** Says that bytes are a ring's, where another algorithm is chosen. */
  private static String byRings(Algorithm by) {
    return by == Algorithm.RING || by == Algorithm.HIERARCHICAL
        ? ""
        : " (those by Ring; it goes by %s)".formatted(by.label());
  }

  /** Bytes that a host sends in an all-gather; by algorithms along the ranks those of a ring. */
  private long gathered(long part, Algorithm by) {
    return by == Algorithm.HIERARCHICAL
        ? planner.hosts().get(0).size() * (planner.hosts().size() - 1L) * part
        : (nRanks - 1L) * part;
  }

  /** Bytes that a host sends in the plain operation, likewise. */
  private long plainBytes(long shape, long count) {
    Operation operation = CallShape.operation(shape);
    boolean byHosts = plainAlgorithm(shape, count) == Algorithm.HIERARCHICAL;
    long of = byHosts ? planner.hosts().size() : nRanks;
    long elements = elements(shape, count);
    long part = elements / of * (of - 1) + elements % of * (of - 1) / of;
    long once = part * CallShape.type(shape).bytes();
    return operation == Operation.ALL_REDUCE ? 2 * once : once;
  }
}
