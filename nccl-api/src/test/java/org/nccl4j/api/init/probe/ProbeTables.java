package org.nccl4j.api.init.probe;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.nccl4j.api.plan.cost.TunedTable;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Tables of probes on devices whose times are known. */
public final class ProbeTables {
  /** As long as nothing takes: algorithms that are taken only where they are asked for. */
  private static final double NONE = 1e9;

  private ProbeTables() {}

  /** Microseconds of an operation of so many bytes; 1e9 and more where there is none. */
  @FunctionalInterface
  public interface Times {
    double of(Operation operation, Algorithm algorithm, Protocol protocol, long bytes);
  }

  private static double time(Times times, ProbeCell cell) {
    return times.of(cell.operation(), cell.algorithm(), cell.protocol(), cell.bytes());
  }

  /** The cells with sizes of the first turn, which a short probe measures. */
  public static int small(Times times) {
    return (int)
        ProbePlan.of(cell -> time(times, cell) < NONE).stream()
            .filter(cell -> cell.bytes() <= 1 << 20)
            .count();
  }

  /**
   * The table of a probe that has time for all cells, or for the first few; empty if nothing of
   * these counts.
   */
  public static Optional<TunedTable> of(String model, int nRanks, int most, Times times) {
    List<ProbeCell> cells = ProbePlan.of(cell -> time(times, cell) < NONE);
    Map<ProbeCell, Double> measured = new LinkedHashMap<>();
    cells.stream().limit(most).forEach(cell -> measured.put(cell, time(times, cell)));
    Optional<TunedTable> table =
        measured.size() == cells.size()
            ? Optional.of(ProbeTable.of(model, nRanks, measured))
            : ProbeTable.soFar(ProbeTable.unfinished(model, nRanks, measured));
    return table.map(of -> TunedTable.parse("probe", ProbeTable.text(of, "# a key")));
  }
}
