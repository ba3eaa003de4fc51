package org.nccl4j.it.perf.report;

import java.io.PrintWriter;
import java.util.List;
import java.util.Locale;

/**
 * The costs of a library's communicators, the worst of all ranks.
 *
 * @param library its name and version
 * @param firstMillis the first creation, contexts being there
 * @param laterMillis a later one
 * @param closeMillis the end of one
 * @param createdBytes device memory of a rank after creation
 * @param usedBytes after a first all-reduce and all-to-all too
 * @param callMicros of the calling thread for a warm all-reduce
 */
public record Costs(
    String library,
    double firstMillis,
    double laterMillis,
    double closeMillis,
    long createdBytes,
    long usedBytes,
    double callMicros) {
  /** Prints some as a table of comments. */
  public static void print(List<Costs> all, PrintWriter out) {
    out.println("#");
    out.println("# Communicators: milliseconds, device memory of a rank, host time of a call");
    out.printf(
        "# %-28s  %9s  %9s  %9s  %11s  %9s  %8s%n",
        "", "first", "later", "close", "created MiB", "used MiB", "call us");
    for (Costs costs : all) {
      out.printf(
          Locale.ROOT,
          "# %-28s  %9.1f  %9.1f  %9.1f  %11.1f  %9.1f  %8.2f%n",
          costs.library,
          costs.firstMillis,
          costs.laterMillis,
          costs.closeMillis,
          costs.createdBytes / 1048576.0,
          costs.usedBytes / 1048576.0,
          costs.callMicros);
    }
    out.println("#");
    out.flush();
  }
}
