package org.nccl4j.api.init.probe;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.function.Predicate;
import java.util.stream.Stream;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/**
 * The cells that a probe measures: first the smaller sizes of all operations, the most important
 * operations first; then larger ones, which take longer. An algorithm is measured at the sizes
 * between which its time is nearly linear, and where it competes with others: lines at small sizes,
 * copy engines at large ones. Two of the smaller sizes tell the bandwidth of slots, so that lines
 * do not win at large sizes before larger ones are measured. Trees, and rings in lines, are
 * measured only where there is no one-shot: ranks that reach each other have direct algorithms for
 * small data.
 */
final class ProbePlan {
  /** Bytes of the largest cell. */
  static final long MOST_BYTES = 32 << 20;

  /** Bytes of the largest cells that come first, and of those that come second. */
  private static final long[] TURNS = {1 << 20, 8 << 20};

  private static final long[] LL = {1 << 10, 64 << 10, 512 << 10};
  private static final long[] LL128 = {1 << 10, 128 << 10, 1 << 20, 8 << 20};
  private static final long[] SIMPLE = {128 << 10, 1 << 20, 8 << 20, MOST_BYTES};
  private static final long[] WINDOWS = {32 << 10, 512 << 10, 8 << 20, MOST_BYTES};
  private static final long[] COPIES = {8 << 20, MOST_BYTES};
  private static final long[] MESSAGES = {1 << 10, 64 << 10, 1 << 20, 8 << 20, MOST_BYTES};

  private static final List<Operation> OPERATIONS =
      List.of(
          Operation.ALL_REDUCE,
          Operation.ALL_GATHER,
          Operation.REDUCE_SCATTER,
          Operation.ALL_TO_ALL,
          Operation.BROADCAST,
          Operation.REDUCE);

  /** Without algorithms that are used only if the user names them. */
  private static final List<Algorithm> ALGORITHMS =
      Stream.of(Algorithm.values())
          .filter(
              algorithm ->
                  algorithm == Algorithm.TREE
                      || algorithm == Algorithm.RING
                      || algorithm == Algorithm.PAIRWISE
                      || algorithm.isStraight()
                      || algorithm.isBetweenWindows()
                          && !algorithm.isMulticast()
                          && algorithm != Algorithm.COPY_ENGINE_STREAM)
          .toList();

  private ProbePlan() {}

  /**
   * The cells of what there is.
   *
   * @param has tells what the device has, the same on all ranks
   */
  static List<ProbeCell> of(Predicate<ProbeCell> has) {
    List<ProbeCell> cells = new ArrayList<>();
    for (Operation operation : OPERATIONS) {
      for (Algorithm algorithm : ALGORITHMS) {
        for (Protocol protocol : Protocol.values()) {
          for (long bytes : sizes(algorithm, protocol)) {
            ProbeCell cell = new ProbeCell(operation, algorithm, protocol, bytes);
            if (!algorithm.isBetweenHosts(operation) && has.test(cell) && !isLeftOut(cell, has)) {
              cells.add(cell);
            }
          }
        }
      }
    }
    cells.sort(Comparator.comparing(ProbePlan::turn)); // stable
    return cells;
  }

  private static int turn(ProbeCell cell) {
    int turn = 0;
    while (turn < TURNS.length && cell.bytes() > TURNS[turn]) {
      turn++;
    }
    return turn;
  }

  private static long[] sizes(Algorithm algorithm, Protocol protocol) {
    if (algorithm.isBetweenWindows() && algorithm.protocol() != protocol) {
      return new long[0];
    }
    return switch (algorithm) {
      case PAIRWISE -> protocol == Protocol.SIMPLE ? MESSAGES : new long[0];
      case COPY_ENGINE, COPY_ENGINE_BATCH -> COPIES;
      default ->
          switch (protocol) {
            case LL -> LL;
            case LL128 -> LL128;
            case SIMPLE -> algorithm.isBetweenWindows() ? WINDOWS : SIMPLE;
          };
    };
  }

  /**
   * True for trees, and rings in lines, where there is one-shot; for LL where there is LL128, which
   * is as fast and carries more; and for what sends all data to every rank, in large steps, where
   * each rank needs but a part.
   */
  private static boolean isLeftOut(ProbeCell cell, Predicate<ProbeCell> has) {
    boolean inSteps =
        cell.algorithm() == Algorithm.TREE
            || cell.algorithm() == Algorithm.RING && cell.protocol() != Protocol.SIMPLE;
    if (inSteps
        && has.test(
            new ProbeCell(cell.operation(), Algorithm.ONE_SHOT, Protocol.LL, cell.bytes()))) {
      return true;
    }
    if (cell.protocol() == Protocol.LL && !cell.algorithm().isBetweenWindows()) {
      return has.test(
          new ProbeCell(cell.operation(), cell.algorithm(), Protocol.LL128, cell.bytes()));
    }
    boolean whole = cell.operation() == Operation.ALL_REDUCE || cell.operation().isRooted();
    return whole && cell.algorithm() == Algorithm.ONE_SHOT && cell.protocol() == Protocol.SIMPLE;
  }
}
