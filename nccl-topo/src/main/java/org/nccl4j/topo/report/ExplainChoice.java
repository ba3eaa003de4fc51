package org.nccl4j.topo.report;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.nccl4j.operation.Operation;
import org.nccl4j.topo.tuning.NcclCostModel;
import org.nccl4j.topo.tuning.Selection;

/** Explains the algorithm and protocol of each size. */
final class ExplainChoice {
  private static final String SECTION = "Algorithms";
  private static final int SMALLEST_POWER = 3;
  private static final int LARGEST_POWER = 33;

  private final Sentences sentences;

  ExplainChoice(Sentences sentences) {
    this.sentences = sentences;
  }

  void write(NcclCostModel costs) {
    for (Operation collective : Operation.collectives()) {
      List<String> ranges = new ArrayList<>();
      int from = SMALLEST_POWER;
      while (from <= LARGEST_POWER) {
        Optional<Selection> selection = costs.select(collective, 1L << from);
        if (selection.isEmpty()) {
          return;
        }
        int to = from;
        while (to < LARGEST_POWER && same(costs, collective, to + 1, selection.get())) {
          to++;
        }
        ranges.add(range(selection.get(), from, to));
        from = to + 1;
      }
      sentences.say(
          SECTION,
          collective.label(),
          String.join(", ", ranges)
              + ": the cheapest by latency + bytes / bandwidth. NCCL_ALGO and NCCL_PROTO forbid or"
              + " force.");
    }
  }

  private static boolean same(
      NcclCostModel costs, Operation collective, int power, Selection selection) {
    return costs
        .select(collective, 1L << power)
        .filter(
            other ->
                other.algorithm() == selection.algorithm()
                    && other.protocol() == selection.protocol())
        .isPresent();
  }

  private static String range(Selection selection, int from, int to) {
    String way = selection.algorithm().label() + " " + selection.protocol().label();
    if (to < LARGEST_POWER) {
      return "up to " + size(1L << to) + " " + way;
    }
    return from == SMALLEST_POWER ? "always " + way : "above " + way;
  }

  private static String size(long bytes) {
    if (bytes >= 1L << 30) {
      return (bytes >> 30) + " GiB";
    }
    if (bytes >= 1L << 20) {
      return (bytes >> 20) + " MiB";
    }
    return bytes >= 1L << 10 ? (bytes >> 10) + " KiB" : bytes + " B";
  }
}
