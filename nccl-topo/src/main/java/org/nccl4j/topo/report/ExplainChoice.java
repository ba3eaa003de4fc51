package org.nccl4j.topo.report;

import java.util.Locale;
import java.util.Optional;
import org.nccl4j.topo.Collective;
import org.nccl4j.topo.tuning.CostModel;
import org.nccl4j.topo.tuning.Selection;

/** Which algorithm and protocol serve which sizes. */
final class ExplainChoice {
  private static final String SECTION = "Algorithms";
  private static final int SMALLEST_POWER = 3;
  private static final int LARGEST_POWER = 33;

  private final Explanation explanation;

  ExplainChoice(Explanation explanation) {
    this.explanation = explanation;
  }

  void write(CostModel costs) {
    for (Collective collective : Collective.values()) {
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
        say(collective, selection.get(), to);
        from = to + 1;
      }
    }
  }

  private static boolean same(
      CostModel costs, Collective collective, int power, Selection selection) {
    return costs
        .select(collective, 1L << power)
        .filter(
            other ->
                other.algorithm() == selection.algorithm()
                    && other.protocol() == selection.protocol())
        .isPresent();
  }

  private void say(Collective collective, Selection selection, int to) {
    String limit = to == LARGEST_POWER ? "and all larger" : "up to " + size(1L << to);
    explanation.say(
        SECTION,
        collective.label(),
        String.format(
            Locale.ROOT,
            "%s: %s with %s is cheapest by latency + bytes / bandwidth. NCCL_ALGO and NCCL_PROTO"
                + " forbid or force.",
            limit,
            selection.algorithm().label(),
            selection.protocol().label()));
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
