package org.nccl4j.it.perf;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.Writer;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import org.junit.jupiter.api.Test;
import org.nccl4j.device.DataType;
import org.nccl4j.device.Device;
import org.nccl4j.device.RedOp;
import org.nccl4j.it.perf.check.CheckResult;
import org.nccl4j.it.perf.peer.Peer;
import org.nccl4j.it.perf.rank.Command;
import org.nccl4j.it.perf.rank.Ranks;
import org.nccl4j.it.perf.rank.RegistrationMode;
import org.nccl4j.it.perf.rank.Reply;
import org.nccl4j.it.perf.report.Result;
import org.nccl4j.it.perf.report.Summary;
import org.nccl4j.it.perf.workload.Cell;
import org.nccl4j.it.perf.workload.Workload;
import org.nccl4j.it.run.ClosedWriter;
import org.nccl4j.it.run.Placement;

/** The sweep with ranks that answer by a formula: an operation takes 1 us and 1 ns an element. */
final class SweepTest {
  private static final int RANKS = 2;

  private static final class FormulaRanks implements Ranks {
    final List<Command.Measure> measured = new ArrayList<>();
    long wrongFrom = Long.MAX_VALUE;

    @Override
    public Reply one(int rank, Command order, Duration patience) {
      return new Reply.Explained("Ring", "LL", "a table");
    }

    @Override
    public List<Reply> all(Command order, Duration patience) {
      if (order instanceof Command.Measure measure) {
        measured.add(measure);
        long nanos = (1000 + measure.cell().elements()) * measure.pace().iterations();
        return List.of(
            new Reply.Took(nanos * measure.pace().aggregate()), new Reply.Took(3 * nanos));
      }
      Cell cell = ((Command.Check) order).cell();
      boolean wrong = cell.elements() >= wrongFrom;
      CheckResult verdict =
          wrong ? new CheckResult(5, 0, "element 0 is 1, expected 2") : CheckResult.RIGHT;
      return List.of(new Reply.Checked(CheckResult.RIGHT), new Reply.Checked(verdict));
    }

    @Override
    public void close() {}
  }

  private static final class SlowPeer implements Peer {
    @Override
    public String name() {
      return "mpi";
    }

    @Override
    public String version() {
      return "1";
    }

    @Override
    public boolean resembles(Cell cell) {
      return !cell.inPlace();
    }

    @Override
    public double micros(Cell cell, int warmup, int iterations) {
      return 10;
    }

    @Override
    public void close() {}
  }

  private final FormulaRanks ranks = new FormulaRanks();
  private final StringWriter text = new StringWriter();
  private Writer to = text;

  private List<Result> sweep(Workload workload, Averaging averaging, int iterations, Peer peer) {
    PerfSettings.How how =
        new PerfSettings.How(
            iterations == 0 ? OptionalInt.empty() : OptionalInt.of(iterations),
            OptionalInt.empty(),
            0,
            1,
            1,
            false,
            0,
            averaging,
            false,
            false,
            false);
    PerfSettings settings =
        new PerfSettings(
            new PerfSettings.What(
                List.of(workload),
                new SizeRange(8, 4096, 0, 8),
                List.of(DataType.FLOAT32),
                List.of(RedOp.SUM),
                List.of(0)),
            how,
            new PerfSettings.Who(
                RANKS,
                1,
                Device.Kind.HOST,
                false,
                Placement.HERE,
                Map.of(),
                List.of(),
                60,
                RegistrationMode.NOT,
                false),
            new PerfSettings.Outputs(
                Optional.empty(),
                Optional.empty(),
                Comparison.NONE,
                PerfSettings.Watching.NOTHING));
    PrintWriter out = new PrintWriter(to);
    return new Sweep(
            settings,
            new CellTimer(ranks, how, 60),
            peer == null ? List.of() : List.of(peer),
            "P2P",
            out)
        .run(workload);
  }

  @Test
  void timesAreAveragedOverRanks() {
    Map<Averaging, Double> expected =
        Map.of(Averaging.RANK0, 1.0, Averaging.AVG, 2.0, Averaging.MIN, 1.0, Averaging.MAX, 3.0);
    expected.forEach(
        (averaging, factor) ->
            assertEquals(
                factor * 1.002,
                sweep(Workload.ALL_REDUCE, averaging, 10, null).get(0).timeUs(),
                1e-9));
  }

  @Test
  void bothPlacesOfEverySizeAreMeasured() {
    List<Result> results = sweep(Workload.ALL_REDUCE, Averaging.RANK0, 10, null);
    assertEquals(
        List.of(8L, 8L, 64L, 64L, 512L, 512L, 4096L, 4096L),
        results.stream().map(Result::bytes).toList());
    assertEquals(
        List.of(false, true, false, true, false, true, false, true),
        results.stream().map(result -> result.cell().inPlace()).toList());
    assertEquals("Ring", results.get(0).choice().algorithm());
    assertTrue(new Summary(results).right());
  }

  @Test
  void nothingIsMeasuredThatNobodyReads() {
    to = new ClosedWriter();
    assertEquals(List.of(), sweep(Workload.ALL_REDUCE, Averaging.RANK0, 10, null));
  }

  @Test
  void whatHasNoInPlaceIsMeasuredOnce() {
    List<Result> results = sweep(Workload.ALL_TO_ALL, Averaging.RANK0, 10, null);
    assertEquals(4, results.size());
    assertEquals(
        4,
        Collections.frequency(text.toString().lines().map(l -> l.contains("N/A")).toList(), true));
  }

  @Test
  void automaticIterationsFollowTheTime() {
    sweep(Workload.ALL_REDUCE, Averaging.RANK0, 0, null);
    Command.Measure last = ranks.measured.get(ranks.measured.size() - 1);
    assertEquals((int) (15_000 / 2.024), last.pace().iterations());
    assertEquals(last.pace().iterations() / 5, last.pace().warmup());
  }

  @Test
  void wrongResultsAreShownAndRemembered() {
    ranks.wrongFrom = 1024;
    List<Result> results = sweep(Workload.ALL_REDUCE, Averaging.RANK0, 10, null);
    assertFalse(new Summary(results).right());
    assertTrue(
        text.toString()
            .contains("# WRONG in place: 5 elements; 0 bytes outside; rank 1: element 0 is 1"),
        text::toString);
  }

  @Test
  void aPeerIsMeasuredWhereItResembles() {
    List<Result> results = sweep(Workload.ALL_REDUCE, Averaging.RANK0, 10, new SlowPeer());
    assertEquals(1, results.get(0).references().size());
    assertEquals(0, results.get(1).references().size());
    assertEquals(10 / 1.002, results.get(0).ratio(results.get(0).references().get(0)), 1e-9);
    assertTrue(text.toString().contains("   mpi   ratio"), text::toString);
  }
}
