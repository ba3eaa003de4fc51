package org.nccl4j.it.perf.workload;

import java.util.ArrayList;
import java.util.List;
import org.nccl4j.operation.Operation;

/** The workloads of {@code perf}, with nccl-tests' names and formulas. */
public enum Workload {
  /** All ranks' data combined, to all. */
  ALL_REDUCE(Operation.ALL_REDUCE),
  /** Each rank's data to all. */
  ALL_GATHER(Operation.ALL_GATHER),
  /** All ranks' data combined, a part to each. */
  REDUCE_SCATTER(Operation.REDUCE_SCATTER),
  /** One rank's data to all. */
  BROADCAST(Operation.BROADCAST),
  /** All ranks' data combined, to one. */
  REDUCE(Operation.REDUCE),
  /** A part of each rank's data to each. */
  ALL_TO_ALL(Operation.ALL_TO_ALL),
  /** The same with parts of different sizes. */
  ALL_TO_ALL_V("alltoallv", Operation.ALL_TO_ALL),
  /** Each rank's data to one. */
  GATHER(Operation.GATHER),
  /** A part of one rank's data to each. */
  SCATTER(Operation.SCATTER),
  /** Each rank sends to the next. */
  SEND_RECV("sendrecv", Operation.ALL_REDUCE),
  /** All-gather in log2(ranks) exchanges. */
  HYPERCUBE("hypercube", Operation.ALL_GATHER);

  private final String label;
  private final Operation operation;

  /** The operation whose buffers have the same sizes. */
  private final Operation shape;

  Workload(Operation operation) {
    this.label = operation.key();
    this.operation = operation;
    this.shape = operation;
  }

  /** A workload of sends and receives. */
  Workload(String label, Operation shape) {
    this.label = label;
    this.operation = Operation.SEND;
    this.shape = shape;
  }

  /** The name on the command line and in reports. */
  public String label() {
    return label;
  }

  /** The operation of the API that it is made of. */
  public Operation operation() {
    return operation;
  }

  /** True if it combines elements, so that the operator matters. */
  public boolean reduces() {
    return operation.reduces();
  }

  /** True if it has a root. */
  public boolean rooted() {
    return operation.isRooted();
  }

  /** True if it can run in place. */
  public boolean hasInPlace() {
    return this != ALL_TO_ALL && this != ALL_TO_ALL_V && this != SEND_RECV;
  }

  /** Why it cannot run among so many ranks; empty if it can. */
  public String refusal(int nRanks) {
    return this == HYPERCUBE && Integer.bitCount(nRanks) != 1
        ? "hypercube needs a power of two of ranks, not " + nRanks
        : "";
  }

  /**
   * The buffers for a size, by nccl-tests' rule: the size is that of the larger buffer, so what
   * each rank contributes to a gathered buffer is the size divided by the ranks.
   *
   * @param elements the size, in elements
   */
  public Layout layout(long elements, int nRanks) {
    long part = elements / shape.wholes(nRanks);
    return new Layout(
        part,
        part * shape.sendParts(nRanks, /* isRoot= */ true),
        part * shape.recvParts(nRanks, /* isRoot= */ true));
  }

  /** Bus bandwidth divided by algorithm bandwidth. */
  public double busFactor(int nRanks) {
    return this == SEND_RECV || this == HYPERCUBE ? 1 : shape.busFactor(nRanks);
  }

  /**
   * Bytes that the algorithm bandwidth counts.
   *
   * @param elementBytes bytes an element
   */
  public double algorithmBytes(Layout layout, int nRanks, int elementBytes) {
    double bytes = (double) layout.count() * elementBytes;
    return switch (this) {
      case HYPERCUBE -> bytes * (nRanks - 1);
      case ALL_TO_ALL_V -> variableElements(layout, nRanks) * elementBytes;
      default -> bytes * shape.wholes(nRanks);
    };
  }

  private static double variableElements(Layout layout, int nRanks) {
    long most = 0;
    for (int rank = 0; rank < nRanks; rank++) {
      most = Math.max(most, VariableCounts.sendOffset(rank, nRanks, nRanks, layout.count()));
    }
    return most;
  }

  /**
   * Returns the expected contents of this rank's receive buffer; empty where it receives nothing.
   */
  public List<Segment> expected(Layout layout, Place place) {
    long count = layout.count();
    int rank = place.rank();
    int nRanks = place.nRanks();
    return switch (this) {
      case ALL_REDUCE -> List.of(new Segment(0, count, Segment.COMBINED, 0));
      case REDUCE_SCATTER -> List.of(new Segment(0, count, Segment.COMBINED, rank * count));
      case REDUCE ->
          place.isRoot() ? List.of(new Segment(0, count, Segment.COMBINED, 0)) : List.of();
      case BROADCAST -> List.of(new Segment(0, count, place.root(), 0));
      case SCATTER -> List.of(new Segment(0, count, place.root(), rank * count));
      case SEND_RECV -> List.of(new Segment(0, count, (rank + nRanks - 1) % nRanks, 0));
      case ALL_GATHER, HYPERCUBE -> gathered(count, nRanks, 0);
      case GATHER -> place.isRoot() ? gathered(count, nRanks, 0) : List.of();
      case ALL_TO_ALL -> gathered(count, nRanks, rank * count);
      case ALL_TO_ALL_V -> variable(count, rank, nRanks);
    };
  }

  private static List<Segment> gathered(long count, int nRanks, long from) {
    List<Segment> segments = new ArrayList<>();
    for (int source = 0; source < nRanks; source++) {
      segments.add(new Segment(source * count, count, source, from));
    }
    return segments;
  }

  private static List<Segment> variable(long mean, int rank, int nRanks) {
    List<Segment> segments = new ArrayList<>();
    for (int source = 0; source < nRanks; source++) {
      segments.add(
          new Segment(
              VariableCounts.recvOffset(source, rank, nRanks, mean),
              VariableCounts.between(source, rank, nRanks, mean),
              source,
              VariableCounts.sendOffset(source, rank, nRanks, mean)));
    }
    return segments;
  }
}
