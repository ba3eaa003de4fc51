package org.nccl4j.it.perf;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.perf.check.Verdict;
import org.nccl4j.it.perf.peer.Peer;
import org.nccl4j.it.perf.rank.Answer;
import org.nccl4j.it.perf.rank.Cell;
import org.nccl4j.it.perf.report.Choice;
import org.nccl4j.it.perf.report.Progress;
import org.nccl4j.it.perf.report.Reference;
import org.nccl4j.it.perf.report.Result;
import org.nccl4j.it.perf.report.Table;
import org.nccl4j.it.perf.workload.Workload;

/** Measures one workload with every type, operator, root and size, and prints the rows. */
final class Sweep {
  private static final long FIRST_WARM_UP_MILLIS = 1500;
  private static final long NEXT_WARM_UP_MILLIS = 300;

  private final PerfSettings settings;
  private final CellTimer timer;
  private final Peer peer;
  private final PrintWriter out;
  private final Table table;
  private final String transport;

  /**
   * A sweep.
   *
   * @param peer to compare with; null for none
   * @param transport names of those between the ranks
   */
  Sweep(PerfSettings settings, CellTimer timer, Peer peer, String transport, PrintWriter out) {
    this.settings = settings;
    this.timer = timer;
    this.peer = peer;
    this.transport = transport;
    this.out = out;
    table = new Table(out, peer == null ? "" : peer.name());
  }

  /** Measures a workload. */
  List<Result> run(Workload workload) {
    table.header();
    List<Result> results = new ArrayList<>();
    long budget = FIRST_WARM_UP_MILLIS;
    for (DataType type : settings.what().types()) {
      for (RedOp op : workload.reduces() ? settings.what().ops() : List.of(RedOp.SUM)) {
        for (int root : workload.rooted() ? settings.what().roots() : List.of(0)) {
          List<Cell> cells = cells(workload, type, op, root);
          Map<Cell, Double> expected = warmUp(cells, budget);
          for (int i = 0; i < cells.size(); i += 2) {
            row(cells.get(i), cells.get(i + 1), expected, results);
          }
          budget = NEXT_WARM_UP_MILLIS;
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

  private Map<Cell, Double> warmUp(List<Cell> cells, long millis) {
    List<Cell> real = cells.stream().filter(cell -> cell != null).toList();
    try (Progress progress = new Progress(settings.outputs().progress(), "warm-up", millis)) {
      return new WarmUp(timer, millis).run(real, progress);
    }
  }

  private void row(Cell apart, Cell inPlace, Map<Cell, Double> expected, List<Result> results) {
    Result left = measure(apart, expected.get(apart));
    Result right = inPlace == null ? null : measure(inPlace, expected.get(inPlace));
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
        Verdict verdict = result.verdict();
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
    boolean compared = peer != null && peer.resembles(cell) && cell.bytes(ranks()) > 0;
    List<Double> ours = new ArrayList<>();
    List<Double> theirs = new ArrayList<>();
    for (int round = 0; round < repetition.rounds(); round++) {
      ours.add(timer.micros(cell, repetition.warmup(), repetition.iterations(), expected));
      if (compared) {
        theirs.add(peer.micros(cell, repetition.warmup(), repetition.iterations()));
      }
    }
    Answer.Explained told = timer.explanation(cell);
    Choice choice = new Choice(told.algorithm(), told.protocol(), transport);
    List<Reference> references =
        compared ? List.of(new Reference(peer.name(), peer.version(), median(theirs))) : List.of();
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

  private static double median(List<Double> values) {
    List<Double> sorted = values.stream().sorted().toList();
    int middle = sorted.size() / 2;
    return sorted.size() % 2 == 1
        ? sorted.get(middle)
        : (sorted.get(middle - 1) + sorted.get(middle)) / 2;
  }
}
