package org.nccl4j.it.perf.rank;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.device.DataType;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RedOp;
import org.nccl4j.device.RemoteException;
import org.nccl4j.it.perf.check.CheckResult;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.Workload;
import org.nccl4j.it.run.Placement;

/** Ranks in processes of their own, started as {@code perf} does. */
@Timeout(600)
final class ProcessRanksTest {
  private static final Duration PATIENCE = Duration.ofSeconds(300);
  private static final Cell CELL =
      new Cell(Workload.ALL_REDUCE, DataType.INT32, RedOp.SUM, 0, 1000, false);

  private final StringWriter err = new StringWriter();

  private List<Reply.Joined> join(Ranks ranks) {
    String id = ((Reply.Text) ranks.one(0, new Command.CreateId(Library.OURS), PATIENCE)).text();
    Command join = new Command.Join(id, Map.of(), List.of(), 10, CoreBinding.Time.BEFORE_CREATION);
    return ranks.all(join, PATIENCE).stream().map(Reply.Joined.class::cast).toList();
  }

  @Test
  void theyMeasureAndCheck() {
    measureAndCheck(Placement.HERE);
  }

  /** A shell reads their command from the input before they read their orders there. */
  @Test
  void aLauncherStartsThem() {
    measureAndCheck(new Placement(List.of("a", "b"), List.of("env", "H={host}")));
  }

  private void measureAndCheck(Placement placement) {
    try (Ranks ranks =
        ProcessRanks.start(RankSpec.host(0, 2, 4096), placement, new PrintWriter(err))) {
      List<Reply.Joined> joined = join(ranks);
      assertTrue(joined.get(0).pid() != joined.get(1).pid());
      for (Reply answer :
          ranks.all(
              new Command.Measure(CELL, new IterationPlan(2, 10, 2, true, 0), Library.OURS),
              PATIENCE)) {
        assertTrue(((Reply.Took) answer).nanos() > 0);
      }
      Reply right = new Reply.Checked(CheckResult.RIGHT);
      assertEquals(List.of(right, right), ranks.all(new Command.Check(CELL, 1), PATIENCE));
    }
  }

  @Test
  void aRankThatIsKilledIsNamed() {
    try (Ranks ranks =
        ProcessRanks.start(RankSpec.host(0, 2, 4096), Placement.HERE, new PrintWriter(err))) {
      long pid = join(ranks).get(1).pid();
      ProcessHandle.of(pid).orElseThrow().destroyForcibly();
      RemoteException e =
          assertThrows(
              RemoteException.class,
              () ->
                  ranks.all(
                      new Command.Measure(
                          CELL, new IterationPlan(0, 100, 1, false, 0), Library.OURS),
                      PATIENCE));
      assertTrue(e.problem().contains("rank 1"), e.problem());
      assertTrue(e.problem().contains("process " + pid), e.problem());
      assertTrue(e.problem().contains("137"), e.problem());
    }
  }

  @Test
  void aFailureOfTheEngineComesBackAsItsKind() {
    try (Ranks ranks =
        ProcessRanks.start(RankSpec.host(0, 1, 4096), Placement.HERE, new PrintWriter(err))) {
      NcclException e =
          assertThrows(
              NcclException.class,
              () ->
                  ranks.all(
                      new Command.Join(
                          "not an id", Map.of(), List.of(), 10, CoreBinding.Time.BEFORE_CREATION),
                      PATIENCE));
      assertEquals(NcclException.Code.INVALID_ARGUMENT, e.code());
      assertTrue(e.problem().startsWith("rank 0: "), e.problem());
    }
  }
}
