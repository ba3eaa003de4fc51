package org.nccl4j.api.init.probe;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.function.ToDoubleFunction;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.bootstrap.Bootstrap;
import org.nccl4j.api.bootstrap.LocalBootstrap;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

/** Ranks that measure together, each with a clock of its own. */
class ProbeTest {
  private static final long MILLISECOND = 1_000_000;

  private final List<TableBench> benches = new ArrayList<>();
  private final List<Duration> budgets = new ArrayList<>();

  /** Times of an earlier probe. */
  private Map<ProbeCell, Double> earlier = Map.of();

  private Map<ProbeCell, Double> known(List<ProbeCell> cells) {
    Map<ProbeCell, Double> known = new LinkedHashMap<>(earlier);
    known.keySet().retainAll(cells);
    return known;
  }

  private void rank(double microseconds, long nanosOfCell) {
    rank(microseconds, nanosOfCell, Duration.ofMillis(200));
  }

  private void rank(ToDoubleFunction<ProbeCell> times) {
    budgets.add(Duration.ofMillis(200));
    benches.add(new TableBench(cell -> cell.algorithm() == Algorithm.ONE_SHOT, times, 1));
  }

  private void rank(double microseconds, long nanosOfCell, Duration budget) {
    budgets.add(budget);
    benches.add(
        new TableBench(
            cell -> cell.algorithm() == Algorithm.ONE_SHOT,
            cell -> microseconds + cell.bytes() / 1e6,
            nanosOfCell));
  }

  private List<Probe.Result> run() throws Exception {
    List<Bootstrap> bootstraps = LocalBootstrap.create(benches.size(), Duration.ofSeconds(60));
    ExecutorService threads = Executors.newFixedThreadPool(benches.size());
    try {
      List<Future<Probe.Result>> running = new ArrayList<>();
      for (int rank = 0; rank < benches.size(); rank++) {
        TableBench bench = benches.get(rank);
        Probe probe =
            new Probe(bootstraps.get(rank), bench, this::known, budgets.get(rank), () -> bench.now);
        running.add(threads.submit(probe::run));
      }
      List<Probe.Result> results = new ArrayList<>();
      for (Future<Probe.Result> each : running) {
        results.add(each.get(300, TimeUnit.SECONDS));
      }
      return results;
    } finally {
      threads.shutdownNow();
    }
  }

  @Test
  void allRanksHaveTheSlowestRanksTimes() throws Exception {
    rank(5, 1);
    rank(7, 1);
    rank(6, 1);
    List<Probe.Result> results = run();
    for (Probe.Result result : results) {
      assertEquals("", result.failure());
      assertEquals(result.cells(), result.times().size());
      assertEquals(results.get(0).times(), result.times());
      result.times().forEach((cell, time) -> assertEquals(7 + cell.bytes() / 1e6, time, 1e-9));
    }
    assertTrue(results.get(0).times().size() > 20);
    for (TableBench bench : benches) {
      assertEquals(List.of("deregister", "free"), last(bench));
    }
  }

  /** On a machine that is slow to allocate, say. */
  @Test
  void theFirstAlgorithmIsMeasuredInAnyCase() throws Exception {
    rank(5, 1);
    rank(5, 1000 * MILLISECOND);
    for (Probe.Result result : run()) {
      assertEquals(
          List.of(Algorithm.ONE_SHOT + " " + Protocol.LL128),
          result.times().keySet().stream()
              .map(cell -> cell.algorithm() + " " + cell.protocol())
              .distinct()
              .toList());
      assertEquals(2, result.times().size(), "a line has two points");
      assertTrue(result.isWorthContinuing());
    }
  }

  /** The machine has other work at the beginning, and one rank's GPU is affected. */
  @Test
  void timesThatDifferLaterAreDisturbed() throws Exception {
    Set<ProbeCell> seen = new HashSet<>();
    rank(5, 1);
    rank(cell -> seen.add(cell) ? 200 : 100);
    for (Probe.Result result : run()) {
      assertEquals("", result.failure());
      assertTrue(result.isDisturbed());
      assertEquals(2, result.spread());
      assertEquals(3, result.times().values().stream().filter(time -> time == 100).count());
    }
  }

  @Test
  void aTenthIsNoDisturbance() throws Exception {
    Set<ProbeCell> seen = new HashSet<>();
    rank(cell -> seen.add(cell) ? 11 : 10);
    for (Probe.Result result : run()) {
      assertFalse(result.isDisturbed());
      assertEquals(1.1, result.spread(), 1e-9);
    }
  }

  private static List<String> last(TableBench bench) {
    return bench.calls.subList(bench.calls.size() - 2, bench.calls.size());
  }

  @Test
  void whereOneRanksBudgetIsOverAllEndAfterTheSameCell() throws Exception {
    rank(5, MILLISECOND);
    rank(5, 40 * MILLISECOND);
    List<Probe.Result> results = run();
    for (Probe.Result result : results) {
      assertEquals("", result.failure());
      assertEquals(5, result.times().size());
      assertEquals(results.get(0).times(), result.times());
    }
    // The most important operation comes first, and the small sizes of all.
    assertEquals(
        List.of(Operation.ALL_REDUCE, Operation.ALL_GATHER),
        results.get(0).times().keySet().stream().map(ProbeCell::operation).distinct().toList());
    for (TableBench bench : benches) {
      assertEquals(5 + 3, bench.calls.stream().filter("measure"::equals).count());
    }
  }

  /** A ring of 32 MiB takes 20 ms of measuring over PCIe, in which many small ones fit. */
  @Test
  void theSmallSizesOfAllOperationsComeFirst() throws Exception {
    rank(5, 9 * MILLISECOND);
    rank(5, 9 * MILLISECOND);
    Probe.Result result = run().get(0);
    assertFalse(result.isComplete());
    Set<Operation> measured = new HashSet<>();
    result
        .times()
        .forEach(
            (cell, time) -> {
              measured.add(cell.operation());
              assertTrue(cell.bytes() <= 1 << 20, cell.toString());
            });
    assertEquals(
        Set.of(
            Operation.ALL_REDUCE,
            Operation.ALL_GATHER,
            Operation.REDUCE_SCATTER,
            Operation.ALL_TO_ALL,
            Operation.BROADCAST,
            Operation.REDUCE),
        measured);
  }

  /** At 12 GB/s the bandwidth is known after 8 MiB. */
  @Test
  void largeSizesOfSlowLinksFollowFromSmallerOnes() throws Exception {
    rank(cell -> 20 + cell.bytes() / 12e3);
    rank(cell -> 5 + cell.bytes() / 12e3);
    Probe.Result result = run().get(0);
    assertTrue(result.isComplete());
    assertFalse(result.isWorthContinuing());
    assertEquals(Probe.Use.FINAL, result.use(/* wholeBudget= */ false));
    assertEquals(result.cells(), result.times().size() + result.leftOut());
    assertTrue(result.leftOut() > 0);
    assertTrue(result.times().keySet().stream().allMatch(cell -> cell.bytes() <= 8 << 20));
    Map<String, Long> points =
        result.times().keySet().stream()
            .collect(Collectors.groupingBy(cell -> cell.line(2), Collectors.counting()));
    assertTrue(points.values().stream().allMatch(of -> of >= 2), points.toString());
  }

  @Test
  void anotherProbeMeasuresWhatIsMissing() throws Exception {
    rank(5, 10 * MILLISECOND);
    rank(6, 10 * MILLISECOND);
    int probes = 0;
    Probe.Result result;
    do {
      benches.forEach(bench -> bench.now = 0);
      List<Probe.Result> results = run();
      result = results.get(1);
      assertEquals(results.get(0).all(), result.all());
      assertEquals(earlier, result.known());
      assertTrue(Collections.disjoint(earlier.keySet(), result.times().keySet()));
      assertEquals(!result.isComplete(), result.isWorthContinuing());
      earlier = result.all();
      probes++;
    } while (!result.isComplete());
    assertTrue(probes > 1, "one probe has measured all");
    assertEquals(result.cells(), earlier.size());
    assertEquals(ProbePlan.of(benches.get(0)::has), List.copyOf(sorted(earlier.keySet())));
  }

  private static List<ProbeCell> sorted(Set<ProbeCell> cells) {
    return ProbePlan.of(cells::contains);
  }

  /** On a machine where the preparation alone takes longer than a probe may. */
  @Test
  void aProbeThatMeasuresHardlyMoreIsTheLast() throws Exception {
    rank(5, 10 * MILLISECOND);
    rank(6, 10 * MILLISECOND);
    earlier = run().get(0).all();
    benches.forEach(bench -> bench.now = 0);
    budgets.replaceAll(budget -> Duration.ofMillis(10));
    Probe.Result result = run().get(0);
    assertFalse(result.isComplete());
    assertFalse(result.isWorthContinuing());
    assertTrue(result.times().size() > 0);
    assertEquals(Probe.Use.FINAL, result.use(/* wholeBudget= */ true));
    assertEquals(Probe.Use.NEXT_PROCESS, result.use(/* wholeBudget= */ false));
  }

  /** On a machine that was busy for a while, such as with the begin of a job. */
  @Test
  void aProbeThatMeasuresNothingMoreLeavesTheRestToTheNextProcess() throws Exception {
    rank(5, 10 * MILLISECOND);
    rank(6, 10 * MILLISECOND);
    earlier = run().get(0).all();
    benches.forEach(bench -> bench.now = 0);
    budgets.replaceAll(budget -> Duration.ZERO);
    Probe.Result result = run().get(0);
    assertEquals(Map.of(), result.times());
    assertEquals(earlier, result.all());
    assertEquals(Probe.Use.NEXT_PROCESS, result.use(/* wholeBudget= */ true));
  }

  /** A rank that is interrupted in the first measurement of a line, say. */
  @Test
  void oneDisturbedTimeLeavesOutNoLargerSizes() throws Exception {
    rank(cell -> cell.bytes() <= 1 << 10 ? 800 : 20 + cell.bytes() / 100e3);
    rank(5, 1);
    Probe.Result result = run().get(0);
    assertEquals(0, result.leftOut());
    assertEquals(result.cells(), result.times().size());
  }

  @Test
  void theShortestBudgetCounts() throws Exception {
    rank(5, 40 * MILLISECOND, Duration.ofSeconds(60));
    rank(5, 40 * MILLISECOND, Duration.ofMillis(400));
    for (Probe.Result result : run()) {
      assertEquals("", result.failure());
      assertEquals(10, result.times().size());
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"allocate", "prepare", "measure"})
  void oneRanksFailureEndsAllBeforeAnybodyMeasuresMore(String step) throws Exception {
    rank(5, 1);
    rank(5, 1);
    benches.get(1).fails = step;
    for (Probe.Result result : run()) {
      assertTrue(result.failure().startsWith("rank 1: "), result.failure());
      assertTrue(result.failure().contains(step + " fails"), result.failure());
      assertEquals(0, result.times().size());
    }
    long measured = step.equals("measure") ? 1 : 0;
    for (TableBench bench : benches) {
      assertEquals(measured, bench.calls.stream().filter("measure"::equals).count());
      assertEquals("free", bench.calls.get(bench.calls.size() - 1));
      assertEquals(!step.equals("allocate"), bench.calls.contains("deregister"));
    }
  }

  @Test
  void windowsThatCannotBeRegisteredAreAFailureAndAreNotDeregistered() throws Exception {
    rank(5, 1);
    rank(5, 1);
    benches.forEach(bench -> bench.fails = "register");
    for (Probe.Result result : run()) {
      assertTrue(result.failure().contains("register fails"), result.failure());
    }
    benches.forEach(bench -> assertFalse(bench.calls.contains("deregister")));
  }

  /** Connections on which an operation waits for ever cannot be given to the user. */
  @Test
  void anOperationThatStillWaitsFailsTheCreation() {
    rank(5, 1);
    rank(5, 1);
    benches.get(0).fails = "measure";
    benches.forEach(bench -> bench.idle = false);
    ExecutionException thrown = assertThrows(ExecutionException.class, this::run);
    assertInstanceOf(InvalidUsageException.class, thrown.getCause());
    benches.forEach(bench -> assertFalse(bench.calls.contains("free")));
  }
}
