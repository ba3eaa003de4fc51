package org.nccl4j.it.top;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.observe.JobReport;
import org.nccl4j.api.observe.flight.RankReport.ProcessReport;

/** The processes of a job that starts again. */
class JobProcessesTest {
  private final JobProcesses processes = new JobProcesses();

  private static ProcessReport process(long pid) {
    return new ProcessReport("host", pid, "");
  }

  /** A report of a job of two ranks, of which those after the named ones are gone. */
  private static JobReport report(boolean formed, long... pids) {
    List<JobReport.Rank> ranks = new ArrayList<>();
    for (long pid : pids) {
      ranks.add(new JobReport.Rank(ranks.size(), process(pid), false));
    }
    List<Integer> gone = IntStream.range(pids.length, 2).boxed().toList();
    return new JobReport(2, formed, ranks, gone, List.of(), List.of());
  }

  @Test
  void processesEndWhenAllRanksHaveOthers() {
    assertTrue(processes.has(process(1)), "nothing is known");
    processes.see(report(true, 1, 2));
    assertTrue(processes.has(process(1)) && processes.has(process(2)));
    processes.see(report(false, 3, 4));
    assertTrue(processes.has(process(1)), "the job is being started");
    processes.see(report(true, 3, 4));
    assertFalse(processes.has(process(1)) || processes.has(process(2)));
    assertTrue(processes.has(process(3)) && processes.has(process(4)));
    processes.see(report(true, 3));
    assertTrue(processes.has(process(4)), "its counters stay to the job's end");
  }
}
