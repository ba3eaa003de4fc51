package org.nccl4j.it.perf.workload;

import java.util.ArrayList;
import java.util.List;

/** The workloads of {@code perf}, with nccl-tests' names and formulas. */
public enum Workload {
  /** All ranks' data combined, to all. */
  ALL_REDUCE("all_reduce", Shape.SAME, true, false),
  /** Each rank's data to all. */
  ALL_GATHER("all_gather", Shape.GATHERS, false, false),
  /** All ranks' data combined, a part to each. */
  REDUCE_SCATTER("reduce_scatter", Shape.SCATTERS, true, false),
  /** One rank's data to all. */
  BROADCAST("broadcast", Shape.SAME, false, true),
  /** All ranks' data combined, to one. */
  REDUCE("reduce", Shape.SAME, true, true),
  /** A part of each rank's data to each. */
  ALL_TO_ALL("alltoall", Shape.EXCHANGES, false, false),
  /** The same with parts of different sizes. */
  ALL_TO_ALL_V("alltoallv", Shape.EXCHANGES, false, false),
  /** Each rank's data to one. */
  GATHER("gather", Shape.GATHERS, false, true),
  /** A part of one rank's data to each. */
  SCATTER("scatter", Shape.SCATTERS, false, true),
  /** Each rank sends to the next. */
  SEND_RECV("sendrecv", Shape.SAME, false, false),
  /** All-gather in log2(ranks) exchanges. */
  HYPERCUBE("hypercube", Shape.GATHERS, false, false);

  private enum Shape {
    SAME,
    GATHERS,
    SCATTERS,
    EXCHANGES
  }

  private final String label;
  private final Shape shape;
  private final boolean reduces;
  private final boolean rooted;

  Workload(String label, Shape shape, boolean reduces, boolean rooted) {
    this.label = label;
    this.shape = shape;
    this.reduces = reduces;
    this.rooted = rooted;
  }

  /** The name on the command line and in reports. */
  public String label() {
    return label;
  }

  /** The operation of the API that it is made of, by the name that the planner knows. */
  public String operation() {
    return switch (this) {
      case ALL_TO_ALL_V, SEND_RECV, HYPERCUBE -> "send";
      default -> label;
    };
  }

  /** Whether it combines elements, so that the operator matters. */
  public boolean reduces() {
    return reduces;
  }

  /** Whether it has a root. */
  public boolean rooted() {
    return rooted;
  }

  /** Whether it can run in place. */
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
    long part = elements / nRanks;
    return switch (shape) {
      case SAME -> new Layout(elements, elements, elements);
      case GATHERS -> new Layout(part, part, part * nRanks);
      case SCATTERS -> new Layout(part, part * nRanks, part);
      case EXCHANGES -> new Layout(part, part * nRanks, part * nRanks);
    };
  }

  /** Bus bandwidth divided by algorithm bandwidth. */
  public double busFactor(int nRanks) {
    return switch (this) {
      case ALL_REDUCE -> 2.0 * (nRanks - 1) / nRanks;
      case ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, ALL_TO_ALL_V, GATHER, SCATTER ->
          (nRanks - 1.0) / nRanks;
      case BROADCAST, REDUCE, SEND_RECV, HYPERCUBE -> 1;
    };
  }

  /**
   * Bytes that the algorithm bandwidth counts.
   *
   * @param elementBytes bytes an element
   */
  public double algorithmBytes(Layout layout, int nRanks, int elementBytes) {
    double bytes = (double) layout.count() * elementBytes;
    return switch (this) {
      case ALL_REDUCE, BROADCAST, REDUCE, SEND_RECV -> bytes;
      case HYPERCUBE -> bytes * (nRanks - 1);
      case ALL_TO_ALL_V -> variableElements(layout, nRanks) * elementBytes;
      case ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER -> bytes * nRanks;
    };
  }

  private static double variableElements(Layout layout, int nRanks) {
    long most = 0;
    for (int rank = 0; rank < nRanks; rank++) {
      most = Math.max(most, VariableCounts.sendOffset(rank, nRanks, nRanks, layout.count()));
    }
    return most;
  }

  /** What this rank's receive buffer must hold afterwards; nothing where it receives nothing. */
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
