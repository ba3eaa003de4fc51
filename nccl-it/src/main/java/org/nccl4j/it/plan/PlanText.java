package org.nccl4j.it.plan;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.Function;
import java.util.function.ToDoubleFunction;
import java.util.function.ToIntFunction;
import java.util.stream.Collectors;
import org.nccl4j.it.plan.Plan.Estimate;
import org.nccl4j.it.plan.Plan.Timed;
import org.nccl4j.it.plan.Traffic.Axis;

/** Prints a plan as a table. */
final class PlanText {
  private static final double GIB = 1L << 30;

  private final PrintWriter out;

  /**
   * A column of the table.
   *
   * @param width negative for text that begins at the left
   */
  private record Column(String name, String unit, int width, Function<Estimate, String> value) {
    static Column number(String name, int width, ToIntFunction<Estimate> value) {
      return new Column(name, "", width, each -> Integer.toString(value.applyAsInt(each)));
    }

    static Column figure(
        String name, String unit, int width, String format, ToDoubleFunction<Estimate> value) {
      return new Column(
          name, unit, width, each -> String.format(Locale.ROOT, format, value.applyAsDouble(each)));
    }

    static Column time(String name, ToDoubleFunction<Estimate> value) {
      return figure(name, "(ms)", 9, "%.2f", value);
    }

    String pad(String text) {
      return String.format(Locale.ROOT, "%" + width + "s", text);
    }
  }

  PlanText(PrintWriter out) {
    this.out = out;
  }

  /**
   * Prints.
   *
   * @param machine name of the topology file
   * @param rows most layouts
   * @param details layouts whose calls are printed too
   */
  void print(Plan plan, String machine, int rows, int details) {
    ModelShape model = plan.job().model();
    heading(plan.job(), machine);
    List<Estimate> shown = plan.estimates().stream().limit(rows).toList();
    boolean equal = shown.stream().allMatch(each -> each.stages().areEqual());
    List<Column> columns = columns(model, equal);
    row(columns, Column::name);
    row(columns, Column::unit);
    shown.forEach(each -> row(columns, column -> column.value.apply(each)));
    if (shown.size() < plan.estimates().size()) {
      line("%d more fit; --rows shows them%n", plan.estimates().size() - shown.size());
    }
    leftOut(plan);
    plan.estimates().stream().limit(details).forEach(each -> calls(model, each));
  }

  private void heading(Job job, String machine) {
    ModelShape model = job.model();
    line(
        "%s: %.2f billion parameters%s, %d layers of %d, sequences of %d tokens%n",
        model.name(),
        model.parameters() / 1e9,
        active(model),
        model.layers(),
        model.hidden(),
        model.sequence());
    line(
        "%d GPUs, %d a machine (%s), %.1f GiB usable each; batch %d in micro-batches of %d, %s%n%n",
        job.gpus(),
        job.gpusPerMachine(),
        machine,
        job.memoryBytes() / GIB,
        job.batch(),
        job.microBatch(),
        job.type().label());
  }

  private static String active(ModelShape model) {
    return model.hasExperts()
        ? String.format(
            Locale.ROOT,
            " (%.2f of a token, with %d of %d experts%s)",
            model.activeParameters() / 1e9,
            model.experts().perToken(),
            model.experts().number(),
            model.experts().shared() > 0
                ? " and %d shared".formatted(model.experts().shared())
                : "")
        : "";
  }

  private static List<Column> columns(ModelShape model, boolean equal) {
    List<Column> columns = new ArrayList<>();
    columns.add(Column.number("tensor", 6, each -> each.layout().tensor()));
    columns.add(Column.number("context", 7, each -> each.layout().context()));
    if (model.hasExperts()) {
      columns.add(Column.number("expert", 6, each -> each.layout().expert()));
    }
    columns.add(Column.number("data", 6, each -> each.layout().data()));
    columns.add(Column.number("pipeline", 8, each -> each.layout().pipeline()));
    if (!equal) {
      columns.add(new Column("layers", "", 8, each -> each.stages().toString()));
    }
    columns.add(new Column("sharding", "", -8, each -> each.layout().sharding().name()));
    columns.add(Column.figure("memory", "(GiB)", 9, "%.1f", each -> each.memory().bytes() / GIB));
    columns.add(new Column("micro", "batch", 6, each -> Integer.toString(each.microBatches())));
    for (Axis axis : Axis.of(model)) {
      columns.add(Column.time(axis.name(), each -> each.milliseconds(axis)));
    }
    columns.add(Column.time("total", Estimate::milliseconds));
    columns.add(Column.time("exposed", Estimate::exposed));
    columns.add(Column.figure("bubble", "(%)", 7, "%.1f", each -> 100 * each.bubble()));
    return columns;
  }

  private void row(List<Column> columns, Function<Column, String> text) {
    line(
        "%s%n",
        columns.stream()
            .map(column -> column.pad(text.apply(column)))
            .collect(Collectors.joining(" ")));
  }

  private void leftOut(Plan plan) {
    if (plan.tooLarge() > 0) {
      line(
          "left out, since too large for a GPU: %d (the smallest needs %.1f GiB)%n",
          plan.tooLarge(), plan.leastBytes() / GIB);
    }
    if (plan.undivided() > 0) {
      line(
          "left out, since a batch of %d cannot be divided into micro-batches of %d: %d%n",
          plan.job().batch(), plan.job().microBatch(), plan.undivided());
    }
  }

  private void calls(ModelShape model, Estimate each) {
    line("%ncalls of one GPU in a step: %s%n", each.layout().describe(model));
    line(
        "%-9s %-14s %6s %7s %12s %8s %11s %9s  %s%n",
        "for", "call", "ranks", "stride", "bytes", "calls", "us each", "ms", "way");
    for (Timed call : each.calls()) {
      Traffic traffic = call.traffic();
      line(
          "%-9s %-14s %6d %7d %12d %8d %11.1f %9.2f  %s %s%n",
          traffic.axis(),
          traffic.operation().label(),
          traffic.ranks(),
          traffic.stride(),
          traffic.bytes(),
          traffic.calls(),
          call.way().microseconds(),
          call.milliseconds(),
          call.way().algorithm().label(),
          call.way().protocol().label());
    }
  }

  private void line(String format, Object... values) {
    out.printf(Locale.ROOT, format, values);
  }
}
