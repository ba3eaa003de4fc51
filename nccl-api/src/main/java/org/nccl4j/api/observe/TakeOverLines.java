package org.nccl4j.api.observe;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.TakeOver;

/**
 * Readable lines about replaced paths of connections: one for each pair of ranks, the newest first.
 * One thread.
 */
public final class TakeOverLines {
  private static final int SHOWN = 8;

  private record Line(int rank, TakeOver takeOver) {
    long lastMillis() {
      return takeOver.what().lastMillis();
    }
  }

  private final List<Line> all = new ArrayList<>();

  /** No lines yet. */
  public TakeOverLines() {}

  /** The lines of the ranks of a communicator. */
  public static TakeOverLines of(List<RankReport> ranks) {
    TakeOverLines lines = new TakeOverLines();
    ranks.forEach(rank -> lines.add(rank.rank(), rank.links().takeOvers()));
    return lines;
  }

  /** Adds those of a rank. */
  public void add(int rank, List<TakeOver> takeOvers) {
    takeOvers.forEach(each -> all.add(new Line(rank, each)));
  }

  /**
   * The first lines, and the number of the others.
   *
   * @param nowMillis ms since 1970
   */
  public List<String> text(long nowMillis) {
    all.sort(Comparator.comparingLong(Line::lastMillis).reversed());
    List<String> lines = new ArrayList<>();
    for (Line line : all.subList(0, Math.min(SHOWN, all.size()))) {
      lines.add("  rank %d: %s".formatted(line.rank(), line.takeOver().text(nowMillis)));
    }
    if (all.size() > SHOWN) {
      lines.add(
          "  and paths between %d more pairs of ranks replaced".formatted(all.size() - SHOWN));
    }
    return lines;
  }
}
