package org.nccl4j.api.init.probe;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.nccl4j.api.plan.algorithm.TunedTable;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Tables of probes on devices whose times are known. */
public final class ProbeTables {
  private ProbeTables() {}

  /** Microseconds of an operation of so many bytes; 1e9 and more where there is none. */
  @FunctionalInterface
  public interface Times {
    double of(Operation operation, Algorithm algorithm, Protocol protocol, long bytes);
  }

  private static double time(Times times, ProbeCell cell) {
    return times.of(cell.operation(), cell.algorithm(), cell.protocol(), cell.bytes());
  }

  /** The table of a probe that has time for all cells, or for the first few. */
  public static TunedTable of(String model, int nRanks, int most, Times times) {
    // As long as nothing takes: algorithms that are taken only where they are asked for.
    double none = 1e9;
    List<ProbeCell> cells = ProbePlan.of(cell -> time(times, cell) < none);
    Map<ProbeCell, Double> measured = new LinkedHashMap<>();
    cells.stream().limit(most).forEach(cell -> measured.put(cell, time(times, cell)));
    return TunedTable.parse(
        "probe", ProbeTable.text(ProbeTable.of(model, nRanks, measured), "# a key"));
  }
}
