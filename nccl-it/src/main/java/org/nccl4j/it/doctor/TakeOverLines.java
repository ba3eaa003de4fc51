package org.nccl4j.it.doctor;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.nccl4j.api.observe.RankReport;
import org.nccl4j.api.observe.RankReport.TakeOver;

/** Says in a line for each pair of ranks which paths of connections others have replaced. */
final class TakeOverLines {
  private static final int SHOWN = 8;

  private record Line(int rank, TakeOver takeOver) {
    long lastMillis() {
      return takeOver.what().lastMillis();
    }
  }

  private TakeOverLines() {}

  /** The lines, the newest first; the others are counted. */
  static List<String> of(List<RankReport> ranks) {
    long now = System.currentTimeMillis();
    List<Line> all = new ArrayList<>();
    for (RankReport rank : ranks) {
      rank.links().takeOvers().forEach(each -> all.add(new Line(rank.rank(), each)));
    }
    all.sort(Comparator.comparingLong(Line::lastMillis).reversed());
    List<String> lines = new ArrayList<>();
    for (Line line : all.subList(0, Math.min(SHOWN, all.size()))) {
      lines.add("  rank %d: %s".formatted(line.rank(), line.takeOver().text(now)));
    }
    if (all.size() > SHOWN) {
      lines.add(
          "  and paths between %d more pairs of ranks replaced".formatted(all.size() - SHOWN));
    }
    return lines;
  }
}
