package org.nccl4j.it.netns;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Stream;
import org.nccl4j.it.api.LineRank;
import org.nccl4j.it.netns.LinkDownPlan.End;
import org.nccl4j.it.netns.LinkDownPlan.Event;

/** Does what seeds say with ranks and links, checks it, and counts it. Used by one thread. */
public final class LinkDownRounds {
  private static final String TAKEN_OVER = "has taken over";
  private static final int LOGGED_LINES = 60;

  private final FaultyLinks links;
  private final List<LineRank> ranks;
  private final List<Path> logs;
  private final Map<String, Long> seen = new TreeMap<>();

  /**
   * Ranks that run {@link LinkDownRank}.
   *
   * @param ranks one a host, the most that a plan has
   * @param logs what each prints to its standard error
   */
  public LinkDownRounds(FaultyLinks links, List<LineRank> ranks, List<Path> logs) {
    this.links = links;
    this.ranks = ranks;
    this.logs = logs;
  }

  /** Does one seed; fails where a result is wrong, or something hangs. */
  public void play(LinkDownPlan plan) throws Exception {
    long begin = System.nanoTime();
    long before = failovers();
    String where = plan.toString();
    List<LineRank> playing = ranks.subList(0, plan.hosts());
    ranks.get(0).tell("id");
    String id = ranks.get(0).next(where);
    for (int rank = 0; rank < plan.hosts(); rank++) {
      ranks.get(rank).tell("play %s %s %d %d".formatted(id, plan.network(), plan.seed(), rank));
    }
    answer(playing, "gate", where);
    for (Event event : plan.events()) {
      playing.forEach(rank -> rank.tell("go"));
      links.strike(event, plan.rails());
      links.await();
      answer(playing, "gate", where);
      if (event.end() == End.LATER) {
        links.repair(event, plan.rails());
      }
      count(event.text(), 1);
    }
    playing.forEach(rank -> rank.tell("go"));
    answer(playing, "gate", where);
    // The bootstrap, which ends the communicator, has one path.
    for (Event event : plan.events()) {
      if (event.end() == End.LAST) {
        links.repair(event, plan.rails());
      }
    }
    playing.forEach(rank -> rank.tell("go"));
    answer(playing, "ok", where);
    for (LineRank rank : playing) {
      rank.keepFootprint(where);
    }
    long moved = failovers() - before;
    count(TAKEN_OVER, moved);
    count("seeds", 1);
    count("seeds with a failover", moved > 0 ? 1 : 0);
    System.out.printf(
        "seed %d: %d failovers, %d ms%n",
        plan.seed(), moved, (System.nanoTime() - begin) / 1_000_000);
  }

  /** Checks that no process holds more than after its first seed, and that sockets took over. */
  public void end() throws Exception {
    for (LineRank rank : ranks) {
      rank.assertNothingIsLeft("after all seeds");
    }
    System.out.println(seen);
    assertTrue(seen.getOrDefault(TAKEN_OVER, 0L) > 0, seen::toString);
  }

  private void count(String what, long number) {
    seen.merge(what, number, Long::sum);
  }

  private void answer(List<LineRank> ranks, String expected, String where)
      throws InterruptedException {
    for (LineRank rank : ranks) {
      assertEquals(expected, rank.next(where), () -> where + "\n" + logged());
    }
  }

  /** The last lines of the ranks' logs. */
  private String logged() {
    StringBuilder all = new StringBuilder();
    for (Path log : logs) {
      try {
        List<String> lines = Files.readAllLines(log);
        List<String> last = lines.subList(Math.max(0, lines.size() - LOGGED_LINES), lines.size());
        all.append(log).append(":\n").append(String.join("\n", last)).append('\n');
      } catch (IOException e) {
        all.append(e).append('\n');
      }
    }
    return all.toString();
  }

  /** Paths that have taken over, by what the ranks have logged. */
  private long failovers() throws IOException {
    long all = 0;
    for (Path log : logs) {
      try (Stream<String> lines = Files.lines(log)) {
        all += lines.filter(line -> line.contains(TAKEN_OVER)).count();
      }
    }
    return all;
  }
}
