package org.nccl4j.it.perf.report;

import java.util.List;
import org.nccl4j.device.DataType;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.perf.check.CheckResult;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.Workload;

/** Results to show. */
final class Samples {
  static final Machine MACHINE = new Machine("node7", "Some CPU", 2, 1L << 34, "Linux 6", "17");

  private Samples() {}

  static Result result(long elements, boolean inPlace, double micros, long wrong) {
    Cell cell = new Cell(Workload.ALL_REDUCE, DataType.FLOAT32, RedOp.SUM, 0, elements, inPlace);
    String first = wrong == 0 ? "" : "rank 0: element 3 is 1.0, expected 2.0";
    return new Result(
        cell,
        4,
        micros,
        new CheckResult(wrong, 0, first),
        new Choice("Ring", "LL", "P2P", 16),
        inPlace ? List.of() : List.of(new Reference("mpi", "Open MPI 4.1.4", 2 * micros)));
  }

  static Report report() {
    return new Report(
        MACHINE,
        "0.1.0",
        List.of("nccl", "perf", "all_reduce", "</script>"),
        new Report.Setting("threads", "host", false, false),
        List.of(result(2, false, 1.5, 0), result(2, true, 1.25, 0), result(262144, false, 100, 7)),
        List.of());
  }
}
