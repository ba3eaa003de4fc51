package org.nccl4j.it.perf.report;

import java.io.PrintWriter;
import java.util.List;
import java.util.Locale;

/** The summary of a table: wrong elements, mean bandwidth, and the comparison. */
public final class Summary {
  private final List<Result> results;

  /** A summary of results. */
  public Summary(List<Result> results) {
    this.results = results;
  }

  /** True if nothing was found wrong. */
  public boolean right() {
    return results.stream().allMatch(Result::right);
  }

  /** The geometric mean of the references' times divided by ours; 1 if there are none. */
  public double meanRatio() {
    double logarithms = 0;
    int count = 0;
    for (Result result : results) {
      for (Reference reference : result.references()) {
        logarithms += Math.log(result.ratio(reference));
        count++;
      }
    }
    return count == 0 ? 1 : Math.exp(logarithms / count);
  }

  /** Prints the lines below a table. */
  public void print(PrintWriter out) {
    long outside = 0;
    double bandwidth = 0;
    for (Result result : results) {
      outside += result.verdict() == null ? 0 : result.verdict().outside();
      bandwidth += result.busBw();
    }
    out.printf(
        Locale.ROOT,
        "# %-20s : %d %s%n",
        "Out of bounds values",
        outside,
        outside == 0 ? "OK" : "FAILED");
    double mean = results.isEmpty() ? 0 : bandwidth / results.size();
    out.printf(Locale.ROOT, "# %-20s : %g%n", "Avg bus bandwidth", mean);
    comparison(out);
  }

  private void comparison(PrintWriter out) {
    Result worst = null;
    double least = Double.MAX_VALUE;
    for (Result result : results) {
      for (Reference reference : result.references()) {
        if (result.ratio(reference) < least) {
          least = result.ratio(reference);
          worst = result;
        }
      }
    }
    if (worst != null) {
      Reference reference = worst.references().get(0);
      out.printf(
          Locale.ROOT,
          "# %s time / our time  : %.2f (geometric mean); least %.2f (%s, %d bytes); %s%n",
          reference.name(),
          meanRatio(),
          least,
          worst.cell().workload().label(),
          worst.bytes(),
          reference.version());
    }
  }
}
