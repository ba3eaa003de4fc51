package org.nccl4j.api.observe;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.observe.flight.RankReport.Operation;

/**
 * Says in one sentence, from the records of a communicator's ranks, which ranks are behind and
 * which rank waits for which.
 */
public final class Diagnosis {
  private static final int NAMED = 8;

  private final Map<Integer, RankReport> ranks = new TreeMap<>();
  private final int nRanks;

  /** Number of collectives that closed ranks had called, by rank. */
  private final Map<Integer, Long> departed = new TreeMap<>();

  private Diagnosis(List<RankReport> reports, List<Departure> departures) {
    departures.forEach(each -> departed.put(each.rank(), each.collectives()));
    reports.stream()
        .sorted(Comparator.comparingLong(RankReport::observedMillis))
        .forEach(report -> ranks.put(report.rank(), report));
    this.nRanks = reports.get(0).nRanks();
  }

  /** The ranks of each communicator that there are reports of. */
  public static Map<Long, List<RankReport>> byCommunicator(List<RankReport> reports) {
    return reports.stream()
        .collect(
            Collectors.groupingBy(
                RankReport::communicator, LinkedHashMap::new, Collectors.toList()));
  }

  /**
   * The sentence.
   *
   * @param reports of one communicator, at least one
   */
  public static String sentence(List<RankReport> reports) {
    return sentence(reports, List.of());
  }

  /**
   * Returns the diagnosis as {@link #sentence(List)} does, where some ranks are known to have
   * closed.
   */
  static String sentence(List<RankReport> reports, List<Departure> departures) {
    return new Diagnosis(reports, departures).say();
  }

  private String say() {
    String head = "communicator " + ranks.values().iterator().next().name() + ": ";
    List<RankReport> waiting = ranks.values().stream().filter(r -> r.current() != null).toList();
    String disagreement = disagreement();
    if (waiting.isEmpty()) {
      // Calls that differ may end nevertheless, with a wrong result.
      String differ = disagreement.isEmpty() ? "" : disagreement + "; ";
      return head + differ + "no operation is in progress" + unknown();
    }
    String stopped = stopped();
    if (!stopped.isEmpty()) {
      return head + stopped + waits(waiting) + unknown();
    }
    if (!disagreement.isEmpty()) {
      return head + disagreement + waits(waiting) + unknown();
    }
    long furthest = waiting.stream().mapToLong(r -> r.current().collective()).max().orElse(0);
    List<RankReport> behind =
        ranks.values().stream().filter(r -> collectives(r) < furthest).toList();
    if (!behind.isEmpty()) {
      Operation missed =
          waiting.stream()
              .map(RankReport::current)
              .filter(op -> op.collective() == furthest)
              .findFirst()
              .orElseThrow();
      return head
          + names(behind)
          + " never called collective %d (%s)".formatted(furthest, missed.text())
          + lastOf(behind.get(0))
          + waits(waiting)
          + unknown();
    }
    String perhaps = perhapsBehind(waiting);
    return head + (perhaps.isEmpty() ? blamed(waiting) : perhaps) + waits(waiting) + unknown();
  }

  /**
   * Ranks that have not called the operation that another may be in: GPUs' kernels count nothing.
   */
  private String perhapsBehind(List<RankReport> waiting) {
    RankReport furthest =
        waiting.stream()
            .filter(r -> r.currentAtMost() != null)
            .max(Comparator.comparingLong(r -> r.currentAtMost().collective()))
            .orElse(null);
    if (furthest == null) {
      return "";
    }
    long most = furthest.currentAtMost().collective();
    List<RankReport> behind = ranks.values().stream().filter(r -> collectives(r) < most).toList();
    return behind.isEmpty()
        ? ""
        : "%s called %d collectives, and rank %d is in %s"
            .formatted(
                names(behind), collectives(behind.get(0)), furthest.rank(), furthest.inOperation());
  }

  /** The ranks whose processes do not run. */
  private String stopped() {
    List<RankReport> stopped =
        ranks.values().stream().filter(r -> "TtZX".contains(state(r))).toList();
    if (stopped.isEmpty()) {
      return "";
    }
    RankReport first = stopped.get(0);
    return names(stopped)
        + (stopped.size() == 1 ? " is " : " are ")
        + (state(first).equalsIgnoreCase("T") ? "stopped" : "dead")
        + " (%s)".formatted(first.process());
  }

  private static String state(RankReport report) {
    String state = report.process().state();
    return state.isEmpty() ? "?" : state;
  }

  /** The first collective on record that ranks called in different ways; empty if none is. */
  private String disagreement() {
    Map<Long, Map<String, List<RankReport>>> calls = new TreeMap<>();
    for (RankReport report : ranks.values()) {
      for (Operation operation : report.operations()) {
        if (operation.isCollective()) {
          calls
              .computeIfAbsent(operation.collective(), number -> new LinkedHashMap<>())
              .computeIfAbsent(operation.text(), text -> new ArrayList<>())
              .add(report);
        }
      }
    }
    for (Map.Entry<Long, Map<String, List<RankReport>>> call : calls.entrySet()) {
      if (call.getValue().size() > 1) {
        return "the ranks disagree on collective %d: ".formatted(call.getKey())
            + call.getValue().entrySet().stream()
                .sorted(Comparator.comparingInt(entry -> entry.getValue().size()))
                .limit(NAMED)
                .map(entry -> names(entry.getValue()) + " called " + entry.getKey())
                .collect(Collectors.joining(", "));
      }
    }
    return "";
  }

  private static long collectives(RankReport report) {
    return report.last() == null ? 0 : report.last().collective();
  }

  private static String lastOf(RankReport report) {
    Operation last = report.last();
    return last == null
        ? ", and nothing before it"
        : "; the last of rank %d was operation %d, %s, %s"
            .formatted(
                report.rank(),
                last.number(),
                last.text(),
                report.current() == null ? "which has ended" : "which has not ended");
  }

  /** Returns the ranks that others wait for and that do not wait themselves. */
  private String blamed(List<RankReport> waiting) {
    for (RankReport report : waiting) {
      RankReport awaited = ranks.get(report.waitsFor());
      if (report.waitsFor() >= 0 && awaited != null && awaited.waitsFor() < 0) {
        Operation current = awaited.current();
        return current == null
            ? "rank %d has ended all %d operations that it called"
                .formatted(awaited.rank(), awaited.launched())
            : "rank %d is in %s, and waits for no rank, perhaps for work before it in its stream"
                .formatted(awaited.rank(), awaited.inOperation());
      }
    }
    boolean allKnown = ranks.size() == nRanks;
    return waiting.stream().anyMatch(r -> r.waitsFor() >= 0)
        ? allKnown ? "the ranks wait for each other" : "ranks wait"
        : "operations are in progress and no rank waits";
  }

  private String waits(List<RankReport> waiting) {
    List<String> clauses = new ArrayList<>();
    for (RankReport report : waiting) {
      if (report.waitsFor() >= 0) {
        clauses.add(
            String.format(
                Locale.ROOT,
                "rank %d waits for rank %d in %s, for %.1f s",
                report.rank(),
                report.waitsFor(),
                report.inOperation(),
                report.stillMillis() / 1000.0));
      }
    }
    if (clauses.isEmpty()) {
      return "";
    }
    int more = clauses.size() - NAMED;
    return "; "
        + String.join(", ", clauses.subList(0, Math.min(NAMED, clauses.size())))
        + (more > 0 ? " and %d more wait".formatted(more) : "");
  }

  private String unknown() {
    String closed =
        departed.entrySet().stream()
            .limit(NAMED)
            .map(
                each ->
                    "; rank %d has closed it%s"
                        .formatted(
                            each.getKey(),
                            each.getValue() == Departure.UNCOUNTED
                                ? ""
                                : " after %d collectives".formatted(each.getValue())))
            .collect(Collectors.joining());
    Set<Integer> known = new HashSet<>(ranks.keySet());
    known.addAll(departed.keySet());
    int missing = nRanks - known.size();
    if (missing <= 0) {
      return closed;
    }
    List<Integer> first =
        IntStream.range(0, nRanks).filter(r -> !known.contains(r)).limit(NAMED).boxed().toList();
    return closed
        + "; no data of %s, whose processes have ended or closed it, or run elsewhere"
            .formatted(numbers(first, missing));
  }

  private static String names(List<RankReport> reports) {
    return numbers(reports.stream().map(RankReport::rank).toList());
  }

  private static String numbers(List<Integer> ranks) {
    return numbers(ranks, ranks.size());
  }

  /** The first of so many ranks by their numbers. */
  private static String numbers(List<Integer> first, int count) {
    String list =
        first.stream().limit(NAMED).map(String::valueOf).collect(Collectors.joining(", "));
    return (count == 1 ? "rank " : "ranks ")
        + list
        + (count > NAMED ? " and %d more".formatted(count - NAMED) : "");
  }
}
