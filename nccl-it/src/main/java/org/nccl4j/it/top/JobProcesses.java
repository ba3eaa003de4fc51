package org.nccl4j.it.top;

import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.nccl4j.api.observe.JobReport;
import org.nccl4j.api.observe.JobReport.UnreachedRoot;
import org.nccl4j.api.observe.flight.RankReport.ProcessReport;

/**
 * The processes of a job, which may be started again with the same id and other processes. For one
 * thread.
 */
final class JobProcesses {
  /** Those of the last report that has all ranks; null before the first. */
  private Set<ProcessReport> current;

  private List<UnreachedRoot> unreached = List.of();

  /** Takes a report. One without some of the ranks says nothing of theirs. */
  void see(JobReport report) {
    unreached = report.unreached();
    if (report.formed() && report.gone().isEmpty()) {
      current = report.ranks().stream().map(JobReport.Rank::process).collect(Collectors.toSet());
    }
  }

  /** The roots that gave no answer for the last report. */
  List<UnreachedRoot> unreached() {
    return unreached;
  }

  /** False for a process that was of the job, and has been replaced. */
  boolean has(ProcessReport process) {
    return current == null || current.contains(process);
  }
}
