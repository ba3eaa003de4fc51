package org.nccl4j.api.observe;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
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
  private static final String IDLE = "no operation is in progress";

  /**
   * Operations that have taken less say nothing of a program that runs: its ranks' records are read
   * one after the other.
   */
  static final long STILL_MILLIS = 1000;

  private final Map<Integer, RankReport> ranks = new TreeMap<>();
  private final long stillMillis;
  private final int nRanks;

  /** Number of collectives that closed ranks had called, by rank. */
  private final Map<Integer, Long> departed = new TreeMap<>();

  private Diagnosis(List<RankReport> reports, List<Departure> departures, long stillMillis) {
    this.stillMillis = stillMillis;
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
   * The sentence about ranks that may be at work. A rank is behind only if others have been in an
   * operation for a second or have failed.
   *
   * @param reports of one communicator, at least one
   */
  public static String sentence(List<RankReport> reports) {
    Diagnosis diagnosis = new Diagnosis(reports, List.of(), STILL_MILLIS);
    return diagnosis.say() + diagnosis.failed();
  }

  /**
   * False if a rank is stopped, dead, behind or failed, if ranks disagree, or if a rank has waited
   * for a minute.
   *
   * @param reports of one communicator, at least one
   */
  public static boolean isHealthy(List<RankReport> reports) {
    return new Diagnosis(reports, List.of(), STILL_MILLIS).isHealthy();
  }

  /**
   * Returns the diagnosis of ranks of which one has waited for too long. Some ranks are known to
   * have closed.
   */
  static String ofHang(List<RankReport> reports, List<Departure> departures) {
    return new Diagnosis(reports, departures, 0).say();
  }

  /**
   * Returns the remedy of ranks that all wait for each other in sends, or in groups that begin with
   * sends; empty for other ranks.
   *
   * @param reports of one communicator, at least one
   */
  static String remedyOfHang(List<RankReport> reports) {
    Diagnosis diagnosis = new Diagnosis(reports, List.of(), 0);
    List<RankReport> waiting =
        diagnosis.waiting().stream().filter(report -> report.waitsFor() >= 0).toList();
    return !waiting.isEmpty()
            && diagnosis.stopped().isEmpty()
            && diagnosis.awaited(waiting).isEmpty()
            && waiting.stream().allMatch(report -> isSend(report.current()))
            && waiting.stream().allMatch(report -> diagnosis.ranks.containsKey(report.waitsFor()))
        ? "put each rank's send and its receive into one group (Group.run), unless they are"
        : "";
  }

  private static boolean isSend(Operation operation) {
    return operation.label().equals(org.nccl4j.operation.Operation.SEND.key());
  }

  private boolean isHealthy() {
    List<RankReport> waiting = waiting();
    return stopped().isEmpty()
        && disagreement().isEmpty()
        && behind(waiting).isEmpty()
        && perhapsBehind(waiting).isEmpty()
        && awaited(waiting).filter(rank -> rank.current() == null).isEmpty()
        && ranks.values().stream().noneMatch(RankReport::failed)
        && waiting.stream().noneMatch(r -> r.waitsFor() >= 0 && r.stillMillis() >= LongWait.MILLIS);
  }

  private String say() {
    String head = "communicator " + ranks.values().iterator().next().name() + ": ";
    boolean isIdle = ranks.values().stream().allMatch(r -> r.current() == null);
    List<RankReport> waiting = waiting();
    String rest = (isIdle ? "; " + IDLE : waits(waiting)) + unknown();
    String stopped = stopped();
    if (!stopped.isEmpty()) {
      return head + stopped + rest;
    }
    String disagreement = disagreement();
    if (!disagreement.isEmpty()) {
      // Calls that differ may end nevertheless, with a wrong result.
      return head + disagreement + rest;
    }
    if (isIdle) {
      return head + IDLE + unknown();
    }
    if (waiting.isEmpty()) {
      return head
          + "operations are in progress, each for less than a second; no rank is behind"
          + unknown();
    }
    List<RankReport> behind = behind(waiting);
    if (!behind.isEmpty()) {
      long furthest = furthest(waiting);
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
          + rest;
    }
    String perhaps = perhapsBehind(waiting);
    return head + (perhaps.isEmpty() ? blamed(waiting) : perhaps) + rest;
  }

  /** The ranks in operations that have taken long enough to count, or have failed. */
  private List<RankReport> waiting() {
    return ranks.values().stream()
        .filter(r -> r.current() != null && (r.stillMillis() >= stillMillis || r.failed()))
        .toList();
  }

  private static long furthest(List<RankReport> waiting) {
    return waiting.stream().mapToLong(r -> r.current().collective()).max().orElse(0);
  }

  private List<RankReport> behind(List<RankReport> waiting) {
    long furthest = furthest(waiting);
    return ranks.values().stream().filter(r -> collectives(r) < furthest).toList();
  }

  private String failed() {
    List<RankReport> failed = ranks.values().stream().filter(RankReport::failed).toList();
    return failed.isEmpty()
        ? ""
        : "; " + names(failed) + (failed.size() == 1 ? " has" : " have") + " failed";
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

  /** A rank that others wait for and that does not wait itself. */
  private Optional<RankReport> awaited(List<RankReport> waiting) {
    return waiting.stream()
        .filter(report -> report.waitsFor() >= 0)
        .map(report -> ranks.get(report.waitsFor()))
        .filter(awaited -> awaited != null && awaited.waitsFor() < 0)
        .findFirst();
  }

  private String blamed(List<RankReport> waiting) {
    RankReport awaited = awaited(waiting).orElse(null);
    if (awaited != null) {
      return awaited.current() == null
          ? "rank %d has ended all %d operations that it called"
              .formatted(awaited.rank(), awaited.launched())
          : "rank %d is in %s, and waits for no rank, perhaps for work before it in its stream"
              .formatted(awaited.rank(), awaited.inOperation());
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
