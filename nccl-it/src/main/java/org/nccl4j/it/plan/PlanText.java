package org.nccl4j.it.plan;

import java.io.PrintWriter;
import java.util.List;
import java.util.Locale;
import org.nccl4j.it.plan.Plan.Estimate;
import org.nccl4j.it.plan.Plan.Timed;
import org.nccl4j.it.plan.Traffic.Axis;

/** Prints a plan as a table. */
final class PlanText {
  private static final double GIB = 1L << 30;

  private final PrintWriter out;

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
    heading(plan.job(), machine);
    line(
        "%6s %7s %6s %8s %-8s %9s %6s %9s %9s %9s %9s %9s %9s %7s%n",
        "tensor",
        "context",
        "data",
        "pipeline",
        "sharding",
        "memory",
        "micro",
        "tensor",
        "context",
        "pipeline",
        "data",
        "total",
        "exposed",
        "bubble");
    line(
        "%6s %7s %6s %8s %-8s %9s %6s %9s %9s %9s %9s %9s %9s %7s%n",
        "", "", "", "", "", "(GiB)", "batch", "(ms)", "(ms)", "(ms)", "(ms)", "(ms)", "(ms)",
        "(%)");
    List<Estimate> shown = plan.estimates().stream().limit(rows).toList();
    shown.forEach(this::row);
    if (shown.size() < plan.estimates().size()) {
      line("%d more fit; --rows shows them%n", plan.estimates().size() - shown.size());
    }
    leftOut(plan);
    plan.estimates().stream().limit(details).forEach(this::calls);
  }

  private void heading(Job job, String machine) {
    ModelShape model = job.model();
    line(
        "%s: %.2f billion parameters, %d layers of %d, sequences of %d tokens%n",
        model.name(), model.parameters() / 1e9, model.layers(), model.hidden(), model.sequence());
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

  private void row(Estimate each) {
    Layout layout = each.layout();
    line(
        "%6d %7d %6d %8d %-8s %9.1f %6d %9.2f %9.2f %9.2f %9.2f %9.2f %9.2f %7.1f%n",
        layout.tensor(),
        layout.context(),
        layout.data(),
        layout.pipeline(),
        layout.sharding(),
        each.memory().bytes() / GIB,
        each.microBatches(),
        each.milliseconds(Axis.tensor),
        each.milliseconds(Axis.context),
        each.milliseconds(Axis.pipeline),
        each.milliseconds(Axis.data),
        each.milliseconds(),
        each.exposed(),
        100 * each.bubble());
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

  private void calls(Estimate each) {
    Layout layout = each.layout();
    line(
        "%ncalls of one GPU in a step: tensor %d, context %d, data %d, pipeline %d, %s%n",
        layout.tensor(), layout.context(), layout.data(), layout.pipeline(), layout.sharding());
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
          call.way().micros(),
          call.milliseconds(),
          call.way().algorithm().label(),
          call.way().protocol().label());
    }
  }

  private void line(String format, Object... values) {
    out.printf(Locale.ROOT, format, values);
  }
}
