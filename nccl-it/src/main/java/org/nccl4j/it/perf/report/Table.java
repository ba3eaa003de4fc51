package org.nccl4j.it.perf.report;

import java.io.PrintWriter;
import java.util.Locale;

/** nccl-tests' table, row by row, with a reference's time and ratio at the end if there is one. */
public final class Table {
  private static final String HALF = "  %7s  %6s  %6s  %6s";
  private static final String REFERENCE = "  %9s  %6s";
  private static final String BLOCKS = "  %6s  %6s";

  private final PrintWriter out;
  private final String reference;
  private final boolean blocks;

  /**
   * A table.
   *
   * @param reference the name of what is compared with; empty for nothing
   */
  public Table(PrintWriter out, String reference) {
    this(out, reference, /* blocks= */ false);
  }

  /**
   * A table.
   *
   * @param reference as above
   * @param blocks whether it has columns for the blocks of both halves
   */
  public Table(PrintWriter out, String reference, boolean blocks) {
    this.out = out;
    this.reference = reference;
    this.blocks = blocks;
  }

  /** Prints the lines above the rows. */
  public void header() {
    boolean compared = !reference.isEmpty();
    String left = "#%11s  %12s  %8s  %6s  %6s";
    out.println("#");
    out.println(trimmed("#%54s %22s %33s", "", "out-of-place", "in-place"));
    out.println(
        format(left, "size", "count", "type", "redop", "root")
            + columns("time", "algbw", "busbw", "#wrong").repeat(2)
            + (blocks ? format(BLOCKS, "blocks", "blocks") : "")
            + (compared ? format(REFERENCE, reference, "ratio") : ""));
    out.println(
        format(left, "(B)", "(elements)", "", "", "")
            + columns("(us)", "(GB/s)", "(GB/s)", "").repeat(2)
            + (blocks ? format(BLOCKS, "(out)", "(in)") : "")
            + (compared ? format(REFERENCE, "(us)", "").stripTrailing() : ""));
    out.flush();
  }

  /**
   * Prints a row.
   *
   * @param outOfPlace its left half
   * @param inPlace its right half; null if the workload has none
   */
  public void row(Result outOfPlace, Result inPlace) {
    StringBuilder line = new StringBuilder();
    line.append(
        format(
            "%12d  %12d  %8s  %6s  %6d",
            outOfPlace.bytes(),
            outOfPlace.count(),
            outOfPlace.cell().type().label(),
            outOfPlace.op(),
            outOfPlace.root()));
    line.append(half(outOfPlace)).append(half(inPlace));
    if (blocks) {
      String right = inPlace == null ? "N/A" : Integer.toString(inPlace.choice().blocks());
      line.append(format(BLOCKS, outOfPlace.choice().blocks(), right));
    }
    for (Result result : new Result[] {outOfPlace, inPlace}) {
      if (result != null) {
        for (Reference theirs : result.references()) {
          String ratio = format("%.2f", result.ratio(theirs));
          line.append(format(REFERENCE, time(theirs.timeUs()), ratio));
        }
      }
    }
    out.println(line);
    out.flush();
  }

  private static String half(Result result) {
    if (result == null) {
      return columns("N/A", "N/A", "N/A", "N/A");
    }
    String wrong = result.verdict() == null ? "N/A" : Long.toString(result.verdict().wrong());
    return columns(
        time(result.timeUs()),
        format("%.2f", result.algBw()),
        format("%.2f", result.busBw()),
        wrong);
  }

  private static String columns(String time, String algBw, String busBw, String wrong) {
    return format(HALF, time, algBw, busBw, wrong);
  }

  /** Microseconds with as many digits as fit. */
  static String time(double micros) {
    String form = micros >= 10_000 ? "%.0f" : micros >= 100 ? "%.1f" : "%.2f";
    return format(form, micros);
  }

  private static String trimmed(String form, Object... values) {
    return format(form, values).stripTrailing();
  }

  private static String format(String form, Object... values) {
    return String.format(Locale.ROOT, form, values);
  }
}
