package org.nccl4j.it.perf.rank;

import java.util.List;
import java.util.Map;
import java.util.Random;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.UniqueId;
import org.nccl4j.it.perf.check.CheckResult;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.Workload;

/**
 * A rank on the host device, connected by sockets, that does random operations and compares each
 * result, and the bytes around it, with what the host computes. All ranks pass the same random
 * numbers. Used by one thread.
 */
public final class CheckedRank implements AutoCloseable {
  private final RankWorker worker;
  private final int nRanks;

  /** Joins the communicator with the id. */
  public CheckedRank(
      String id,
      int rank,
      int nRanks,
      int mostBytes,
      Map<String, String> settings,
      int deadlineSeconds) {
    this.nRanks = nRanks;
    worker = new RankWorker(RankSpec.host(rank, nRanks, mostBytes), CheckedRank::join);
    try {
      ask(new Command.Join(id, settings, List.of("NET"), deadlineSeconds, CoreBinding.Time.NEVER));
    } catch (AssertionError e) {
      worker.close();
      throw e;
    }
  }

  private static Communicator join(RankSpec spec, String id, CommunicatorConfig config) {
    return Communicator.initRank(
        spec.nRanks(), UniqueId.parse(id), spec.rank(), spec.device(spec.rank()), config);
  }

  private Reply ask(Command command) {
    Reply reply = worker.obey(command);
    if (reply instanceof Reply.Failed failed) {
      throw new AssertionError(failed.problem() + "\n" + failed.trace());
    }
    return reply;
  }

  /** Does one operation of at most so many bytes. */
  public void operation(Random random, int mostBytes) {
    Workload workload;
    do {
      workload = Workload.values()[random.nextInt(Workload.values().length)];
    } while (!workload.refusal(nRanks).isEmpty());
    Cell cell = RandomCells.next(random, workload, nRanks, mostBytes);
    Command check = new Command.Check(cell, random.nextLong());
    CheckResult verdict = ((Reply.Checked) ask(check)).verdict();
    if (verdict.wrong() + verdict.outside() != 0) {
      throw new AssertionError(
          "%s: %d elements wrong, %d bytes damaged outside; the first: %s"
              .formatted(cell, verdict.wrong(), verdict.outside(), verdict.first()));
    }
  }

  @Override
  public void close() {
    worker.close();
  }
}
