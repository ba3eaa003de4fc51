package org.nccl4j.it.perf;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.ToDoubleFunction;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.perf.check.CheckResult;
import org.nccl4j.it.perf.peer.Peer;
import org.nccl4j.it.perf.rank.Reply;
import org.nccl4j.it.perf.report.Choice;
import org.nccl4j.it.perf.report.Progress;
import org.nccl4j.it.perf.report.Reference;
import org.nccl4j.it.perf.report.Result;
import org.nccl4j.it.perf.report.Table;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.Workload;

/** Measures one workload with every type, operator, root and size, and prints the rows. */
final class Sweep {

  private final PerfSettings settings;
  private final CellTimer timer;
  private final List<Peer> peers;
  private final PrintWriter out;
  private final Table table;
  private final String transport;

  /**
   * A sweep.
   *
   * @param peers to compare with; of those with one name the best counts
   * @param transport names of those between the ranks
   */
  Sweep(
      PerfSettings settings, CellTimer timer, List<Peer> peers, String transport, PrintWriter out) {
    this.settings = settings;
    this.timer = timer;
    this.peers = peers;
    this.transport = transport;
    this.out = out;
    table = new Table(out, peers.isEmpty() ? "" : peers.get(0).name(), settings.how().blocks());
  }

  /** Measures a workload; ends early if nobody reads the rows. */
  List<Result> run(Workload workload) {
    table.header();
    List<Result> results = new ArrayList<>();
    long budget = settings.how().jitWarmupMillis();
    for (DataType type : settings.what().types()) {
      for (RedOp op : workload.reduces() ? settings.what().ops() : List.of(RedOp.SUM)) {
        for (int root : workload.rooted() ? settings.what().roots() : List.of(0)) {
          if (out.checkError()) {
            return results;
          }
          List<Cell> cells = cells(workload, type, op, root);
          WarmUp warmUp =
              new WarmUp(
                  (cell, iterations, known) -> timer.micros(cell, 0, iterations, known), budget);
          Map<Cell, Double> expected = run(warmUp, cells, budget);
          rows(cells, cell -> warmUp.settle(cell, expected.get(cell)), results);
          // The code is the same for all types and roots but for the innermost loops.
          budget = settings.how().jitWarmupMillis() / 5;
        }
      }
    }
    return results;
  }

  /** Out of place and in place alternate; where there is no in place the latter is null. */
  private List<Cell> cells(Workload workload, DataType type, RedOp op, int root) {
    List<Cell> cells = new ArrayList<>();
    TreeSet<Long> elements = new TreeSet<>();
    for (long bytes : settings.what().sizes().sizes()) {
      elements.add(bytes / type.bytes());
    }
    for (long count : elements) {
      Cell cell = new Cell(workload, type, op, root, count, false);
      cells.add(cell);
      cells.add(workload.hasInPlace() ? cell.placed(true) : null);
    }
    return cells;
  }

  private Map<Cell, Double> run(WarmUp warmUp, List<Cell> cells, long millis) {
    List<Cell> real = cells.stream().filter(cell -> cell != null).toList();
    boolean watched = settings.outputs().watching() != PerfSettings.Watching.NOTHING;
    try (Progress progress = new Progress(watched, "warm-up", millis)) {
      return warmUp.run(real, progress);
    }
  }

  private void rows(List<Cell> cells, ToDoubleFunction<Cell> expected, List<Result> results) {
    boolean alone = settings.outputs().watching() == PerfSettings.Watching.ERRORS;
    String task = cells.get(0).workload().label();
    try (Progress progress = new Progress(alone, task, cells.size())) {
      for (int i = 0; i < cells.size() && !out.checkError(); i += 2) {
        row(cells.get(i), cells.get(i + 1), expected, results);
        progress.to(i + 2L);
      }
    }
  }

  private void row(
      Cell apart, Cell inPlace, ToDoubleFunction<Cell> expected, List<Result> results) {
    Result left = measure(apart, expected.applyAsDouble(apart));
    Result right = inPlace == null ? null : measure(inPlace, expected.applyAsDouble(inPlace));
    table.row(left, right);
    results.add(left);
    if (right != null) {
      results.add(right);
    }
    if (settings.how().explain()) {
      timer.explanation(apart).table().lines().forEach(line -> out.println("#   " + line));
      out.flush();
    }
    for (Result result : right == null ? List.of(left) : List.of(left, right)) {
      if (!result.right()) {
        CheckResult verdict = result.verdict();
        String place = result.cell().inPlace() ? "in place" : "out of place";
        out.printf(
            "# WRONG %s: %d elements; %d bytes outside; %s%n",
            place, verdict.wrong(), verdict.outside(), verdict.first());
        out.flush();
      }
    }
  }

  private Result measure(Cell cell, double expected) {
    Repetition repetition = repetition(expected);
    List<Peer> compared =
        peers.stream().filter(peer -> peer.resembles(cell) && cell.bytes(ranks()) > 0).toList();
    List<Double> ours = new ArrayList<>();
    Map<Peer, List<Double>> theirs = new LinkedHashMap<>();
    int blocks = 0;
    for (int round = 0; round < repetition.rounds(); round++) {
      ours.add(timer.micros(cell, repetition.warmup(), repetition.iterations(), expected));
      blocks = timer.blocks();
      for (Peer peer : compared) {
        theirs
            .computeIfAbsent(peer, key -> new ArrayList<>())
            .add(peer.micros(cell, repetition.warmup(), repetition.iterations()));
      }
    }
    Reply.Explained told = timer.explanation(cell);
    Choice choice = new Choice(told.algorithm(), told.protocol(), transport, blocks);
    List<Reference> references =
        theirs.entrySet().stream()
            .map(e -> new Reference(e.getKey().name(), e.getKey().version(), median(e.getValue())))
            .min(Comparator.comparingDouble(Reference::timeUs))
            .stream()
            .toList();
    return new Result(cell, ranks(), median(ours), timer.check(cell), choice, references);
  }

  private Repetition repetition(double expected) {
    PerfSettings.How how = settings.how();
    Repetition repetition =
        how.iterations().isPresent()
            ? Repetition.fixed(1, how.iterations().getAsInt())
            : Repetition.automatic(expected * how.aggregate());
    return how.warmup().isPresent() ? repetition.withWarmup(how.warmup().getAsInt()) : repetition;
  }

  private int ranks() {
    return settings.ranks().count();
  }

  static double median(List<Double> values) {
    List<Double> sorted = values.stream().sorted().toList();
    int middle = sorted.size() / 2;
    return sorted.size() % 2 == 1
        ? sorted.get(middle)
        : (sorted.get(middle - 1) + sorted.get(middle)) / 2;
  }
}
