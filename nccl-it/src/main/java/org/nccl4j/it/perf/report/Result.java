package org.nccl4j.it.perf.report;

import java.util.List;
import org.nccl4j.it.perf.check.CheckResult;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.Workload;

/**
 * The measurement of one cell.
 *
 * @param cell what it is about
 * @param nRanks ranks
 * @param timeUs microseconds an operation
 * @param verdict what was wrong, over all ranks and checks; null if it was not checked
 * @param choice how the engine did it
 * @param references what others took
 */
public record Result(
    Cell cell,
    int nRanks,
    double timeUs,
    CheckResult verdict,
    Choice choice,
    List<Reference> references) {
  /** The size as in nccl-tests' table, in bytes. */
  public long bytes() {
    return cell.bytes(nRanks);
  }

  /** The count that the call was given. */
  public long count() {
    return cell.layout(nRanks).count();
  }

  /** Algorithm bandwidth in GB/s. */
  public double algBw() {
    double bytes = cell.workload().algorithmBytes(cell.layout(nRanks), nRanks, cell.type().bytes());
    return timeUs > 0 ? bytes / timeUs / 1e3 : 0;
  }

  /** Bus bandwidth in GB/s. */
  public double busBw() {
    return algBw() * cell.workload().busFactor(nRanks);
  }

  /** A reference's time divided by ours: above 1, ours is faster. */
  public double ratio(Reference reference) {
    return reference.timeUs() / timeUs;
  }

  /** True if nothing was found wrong. */
  public boolean right() {
    return verdict == null || (verdict.wrong() == 0 && verdict.outside() == 0);
  }

  /** The operator as the table shows it. */
  public String op() {
    return cell.workload().reduces() ? cell.op().label() : "none";
  }

  /** The root as the table shows it. */
  public int root() {
    Workload workload = cell.workload();
    return workload.rooted() ? cell.root() : -1;
  }
}
