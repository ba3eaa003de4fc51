package org.nccl4j.it.perf;

import java.util.Map;
import java.util.TreeSet;
import org.nccl4j.it.perf.rank.Cell;
import org.nccl4j.it.perf.report.Choice;

/** How the engine does each cell, as far as it tells. */
final class Choices {
  private final String transport;

  /**
   * Choices among ranks.
   *
   * @param transports rank 0's to each other rank
   */
  Choices(Map<Integer, String> transports) {
    transport = String.join(",", new TreeSet<>(transports.values()));
  }

  /** The choice for a cell. */
  Choice of(Cell cell) {
    return new Choice(null, null, transport);
  }
}
