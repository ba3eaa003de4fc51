package org.nccl4j.it.perf;

import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.TreeSet;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.perf.nccl.Libnccl;
import org.nccl4j.it.perf.rank.Command;
import org.nccl4j.it.perf.rank.Library;
import org.nccl4j.it.perf.rank.RegistrationMode;
import org.nccl4j.it.perf.rank.Reply;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.Workload;

/**
 * Measures one workload beside a computing kernel, and prints how much each slows down the other:
 * of the computation the microseconds for each GB that is communicated meanwhile.
 */
final class OverlapSweep {
  /** Operations take about so long together, and the computation at least twice as long. */
  private static final double OPERATIONS_MICROS = 8_000;

  private static final double LEAST_COMPUTATION_MICROS = 20_000;
  private static final int LEAST_CALLS = 3;
  private static final int MOST_CALLS = 800;

  private static final String ROW = "%12s  %8s  %12s  %6s  %6s  %10s  %10s  %10s  %9s  %9s  %7s";

  private final PerfSettings settings;
  private final CellTimer timer;
  private final boolean compares;
  private final PrintWriter out;

  /**
   * A sweep.
   *
   * @param compares whether libnccl is measured too
   */
  OverlapSweep(PerfSettings settings, CellTimer timer, boolean compares, PrintWriter out) {
    this.settings = settings;
    this.timer = timer;
    this.compares = compares;
    this.out = out;
  }

  /** Measures a workload; ends early if nobody reads the rows. */
  void run(Workload workload) {
    out.println("#");
    out.println("# A computation beside operations: microseconds of both");
    print("# size", "type", "library", "blocks", "calls");
    print("# (B)", "", "", "", "");
    for (DataType type : settings.what().types()) {
      for (RedOp op : workload.reduces() ? settings.what().ops() : List.of(RedOp.SUM)) {
        TreeSet<Long> counts = new TreeSet<>();
        settings.what().sizes().sizes().forEach(bytes -> counts.add(bytes / type.bytes()));
        for (long count : counts) {
          Cell cell = new Cell(workload, type, op, settings.what().roots().get(0), count, false);
          if (cell.bytes(settings.ranks().count()) > 0 && !out.checkError()) {
            libraries(cell).forEach(library -> measure(cell, library));
          }
        }
      }
    }
  }

  /** libnccl has its buffers registered where ours are. */
  private List<Library> libraries(Cell cell) {
    List<Library> libraries = new ArrayList<>(List.of(Library.OURS));
    if (compares && Libnccl.has(cell)) {
      boolean plain = settings.ranks().registration() == RegistrationMode.NOT;
      libraries.add(plain ? Library.LIBNCCL : Library.LIBNCCL_WINDOWS);
    }
    return libraries;
  }

  private void measure(Cell cell, Library library) {
    timer.micros(cell, 2, 5, 0, library);
    double expected = timer.micros(cell, 5, 20, 0, library);
    int calls =
        (int)
            Math.max(LEAST_CALLS, Math.min(MOST_CALLS, OPERATIONS_MICROS / Math.max(1, expected)));
    double computation = Math.max(LEAST_COMPUTATION_MICROS, 2 * calls * expected);
    Reply.Overlapped took =
        timer.overlap(new Command.Overlap(cell, calls, computation, library), expected);
    long bytes = cell.bytes(settings.ranks().count());
    double lost = took.computationBeside() - took.computation();
    double slower = took.operationsBeside() / took.operations() - 1;
    out.println(
        text(
            bytes,
            cell.type().label(),
            library == Library.OURS ? library.label() : Library.LIBNCCL.label(),
            took.blocks() == 0 ? "-" : took.blocks(),
            calls,
            decimal(took.computation(), 0),
            decimal(took.computationBeside(), 0),
            decimal(lost / calls / bytes * 1e9, 1),
            decimal(took.operations(), 2),
            decimal(took.operationsBeside(), 2),
            decimal(100 * slower, 1) + "%"));
    out.flush();
  }

  private void print(String size, String type, String library, String blocks, String calls) {
    boolean first = !type.isEmpty();
    out.println(
        text(
                size,
                type,
                library,
                blocks,
                calls,
                first ? "compute" : "alone",
                first ? "compute" : "beside",
                first ? "slower" : "(us/GB)",
                first ? "operation" : "alone",
                first ? "operation" : "beside",
                first ? "slower" : "")
            .stripTrailing());
  }

  private static String text(Object... values) {
    return String.format(Locale.ROOT, ROW, values);
  }

  private static String decimal(double value, int digits) {
    return String.format(Locale.ROOT, "%." + digits + "f", value);
  }
}
