package org.nccl4j.it.top;

import java.io.PrintWriter;
import java.time.Instant;
import java.time.ZoneId;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import org.nccl4j.api.observe.FailoverLines;
import org.nccl4j.it.top.Frame.CommunicatorRates;
import org.nccl4j.it.top.Frame.LinkRates;
import org.nccl4j.it.top.Frame.RankRates;
import org.nccl4j.it.top.Frame.Wait;

/** Prints frames for people: a table of ranks for each communicator. */
final class FrameText {
  private static final DateTimeFormatter TIME = DateTimeFormatter.ofPattern("HH:mm:ss");
  private static final int MOST_RANKS = 64;
  private static final int MOST_LINKS = 6;

  private final PrintWriter out;

  FrameText(PrintWriter out) {
    this.out = out;
  }

  void print(Frame frame) {
    List<CommunicatorRates> all = frame.communicators();
    out.printf(
        Locale.ROOT,
        "nccl top, %s, over %.1f s: %d communicator%s, %d ranks%n",
        TIME.format(Instant.ofEpochMilli(frame.millis()).atZone(ZoneId.systemDefault())),
        frame.seconds(),
        all.size(),
        all.size() == 1 ? "" : "s",
        all.stream().mapToInt(each -> each.ranks().size()).sum());
    frame
        .unreached()
        .forEach(
            root -> out.printf("no answer of the root at %s: %s%n", root.where(), root.reason()));
    all.forEach(each -> print(each, frame.millis()));
    out.flush();
  }

  private void print(CommunicatorRates each, long millis) {
    out.printf(
        Locale.ROOT,
        "%ncommunicator %s, %d ranks: %.0f operations/s, bus bandwidth %.2f GB/s a rank%n",
        each.name(),
        each.nRanks(),
        each.operations(),
        each.busGigabytes());
    out.printf(
        "  %5s %-24s %11s %9s %9s %7s %5s  %-7s %s%n",
        "rank", "process", "operations", "algbw", "busbw", "waits", "for", "state", "operation");
    out.printf(
        "  %5s %-24s %11s %9s %9s %7s %5s%n", "", "", "(1/s)", "(GB/s)", "(GB/s)", "(%)", "rank");
    each.ranks().stream().limit(MOST_RANKS).forEach(this::print);
    if (each.ranks().size() > MOST_RANKS) {
      out.printf("  and %d more ranks%n", each.ranks().size() - MOST_RANKS);
    }
    if (!each.waits().isEmpty()) {
      out.printf(
          "  longest waits: %s%n",
          each.waits().stream().map(FrameText::text).collect(Collectors.joining(", ")));
    }
    String busiest = busiest(each);
    if (!busiest.isEmpty()) {
      out.printf("  busiest links: %s%n", busiest);
    }
    each.speeds().text().forEach(out::println);
    FailoverLines replaced = new FailoverLines();
    each.ranks().forEach(rank -> replaced.add(rank.rank(), rank.failovers()));
    replaced.text(millis).forEach(out::println);
  }

  /** A rank's connection. */
  private record Busy(int rank, LinkRates link) {
    double gigabytes() {
      return link.gigabytes();
    }

    String text() {
      return "rank %d to %s by %s %.2f GB/s"
          .formatted(
              rank, link.peer() < 0 ? "others" : link.peer(), link.transport(), link.gigabytes());
    }
  }

  private static String busiest(CommunicatorRates each) {
    List<Busy> busy = new ArrayList<>();
    for (RankRates rank : each.ranks()) {
      rank.links().forEach(link -> busy.add(new Busy(rank.rank(), link)));
    }
    return busy.stream()
        .filter(one -> one.gigabytes() > 0)
        .sorted(Comparator.comparingDouble(Busy::gigabytes).reversed())
        .limit(MOST_LINKS)
        .map(Busy::text)
        .collect(Collectors.joining(", "));
  }

  private void print(RankRates rank) {
    out.printf(
        Locale.ROOT,
        "  %5d %-24s %11.0f %9.2f %9.2f %7.0f %5s  %-7s %s%n",
        rank.rank(),
        rank.process().pid() + " " + rank.process().host(),
        rank.operations(),
        rank.gigabytes(),
        rank.busGigabytes(),
        100 * rank.waiting(),
        rank.waitsFor() < 0 ? "" : Integer.toString(rank.waitsFor()),
        rank.state(),
        rank.operation());
  }

  private static String text(Wait wait) {
    return "rank %d for rank %d (%.0f %%)"
        .formatted(wait.rank(), wait.waitsFor(), 100 * wait.share());
  }
}
