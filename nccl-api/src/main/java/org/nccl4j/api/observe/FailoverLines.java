package org.nccl4j.api.observe;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Failover;

/**
 * Readable lines about replaced paths of connections: one for each pair of ranks, the newest first.
 * One thread.
 */
public final class FailoverLines {
  private static final int SHOWN = 8;

  private record Line(int rank, Failover failover) {
    long lastMillis() {
      return failover.what().lastMillis();
    }
  }

  private final List<Line> all = new ArrayList<>();

  /** No lines yet. */
  public FailoverLines() {}

  /** The lines of the ranks of a communicator. */
  public static FailoverLines of(List<RankReport> ranks) {
    FailoverLines lines = new FailoverLines();
    ranks.forEach(rank -> lines.add(rank.rank(), rank.links().failovers()));
    return lines;
  }

  /** Adds those of a rank. */
  public void add(int rank, List<Failover> failovers) {
    failovers.forEach(each -> all.add(new Line(rank, each)));
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
      lines.add("  rank %d: %s".formatted(line.rank(), line.failover().text(nowMillis)));
    }
    if (all.size() > SHOWN) {
      lines.add(
          "  and paths between %d more pairs of ranks replaced".formatted(all.size() - SHOWN));
    }
    return lines;
  }
}
