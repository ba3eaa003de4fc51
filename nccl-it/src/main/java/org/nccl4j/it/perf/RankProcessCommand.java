package org.nccl4j.it.perf;

import java.util.concurrent.Callable;
import org.nccl4j.it.perf.rank.RankProcess;
import picocli.CommandLine.Command;

/** A rank of {@code perf --processes}, started by {@code perf} alone. */
@Command(name = "perf-rank", hidden = true, description = "A rank of perf --processes.")
public final class RankProcessCommand implements Callable<Integer> {
  /** Called by picocli. */
  public RankProcessCommand() {}

  @Override
  public Integer call() {
    return RankProcess.serve(System.in, System.out);
  }
}
