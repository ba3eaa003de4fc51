package org.nccl4j.it.perf;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.plan.cost.TunedTable;
import org.nccl4j.api.plan.trial.TrialTimes;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.operation.Algorithm;
import org.nccl4j.operation.Operation;
import org.nccl4j.operation.Protocol;

class LearnedTableTest {
  private static final TrialTimes.Way RING = way(Algorithm.RING);
  private static final TrialTimes.Way TREE = way(Algorithm.TREE);
  private static final TrialTimes.Way TWO_SHOT = way(Algorithm.TWO_SHOT);

  private static TrialTimes.Way way(Algorithm algorithm) {
    return new TrialTimes.Way(Operation.ALL_REDUCE, algorithm, Protocol.SIMPLE);
  }

  private static TrialTimes.Sample sample(
      int shape, long call, TrialTimes.Way way, double predicted, double measured) {
    return new TrialTimes.Sample(shape, call, way.equals(RING), way, 4096, predicted, measured);
  }

  private static TrialTimes file(int rank, List<TrialTimes.Sample> samples) {
    Map<TrialTimes.Way, TreeMap<Long, Double>> predictions =
        Map.of(
            RING, new TreeMap<>(Map.of(1024L, 5.0, 16384L, 20.0)),
            TREE, new TreeMap<>(Map.of(1024L, 6.0, 16384L, 24.0)),
            TWO_SHOT, new TreeMap<>(Map.of(1024L, 30.0)));
    return new TrialTimes(7, "2", "host", rank == 0 ? predictions : Map.of(), samples, List.of());
  }

  /** Ring, the choice, takes 20 us where 10 are predicted; tree 9 where 12 are. */
  private static List<TrialTimes> files(int trials) {
    List<TrialTimes.Sample> first = new ArrayList<>();
    List<TrialTimes.Sample> second = new ArrayList<>();
    for (int trial = 0; trial < trials; trial++) {
      int call = 1000 * trial + 999;
      boolean late = trial % 2 == 0;
      first.add(sample(0, call - 1, RING, 10, late ? 20 : 500));
      second.add(sample(0, call - 1, RING, 10, late ? 500 : 20));
      first.add(sample(0, call, TREE, 12, late ? 700 : 9));
      second.add(sample(0, call, TREE, 12, late ? 9 : 700));
    }
    return List.of(file(0, first), file(1, second));
  }

  @Test
  void theRankThatWaitedLeastCounts() {
    LearnedTable table = LearnedTable.of(files(3));
    assertEquals(
        List.of(
            "2 ranks, AllReduce of 4096 bytes: Tree Simple 9.00 us, Ring Simple 20.00 us (chosen)"),
        table.report());
    assertEquals(0, table.share(), "the tried algorithm is faster");
  }

  /** It has a name of its own there: NCCL_ALGO has one for both. */
  @Test
  void nvlsInPlaceHasALine() {
    TrialTimes.Way inPlace = way(Algorithm.DIRECT_NVLS);
    List<TrialTimes.Sample> calls = new ArrayList<>();
    for (int call = 1; call <= 3; call++) {
      calls.add(new TrialTimes.Sample(0, call, /* chosen= */ true, inPlace, 4096, 5, 8));
    }
    TreeMap<Long, Double> predicted = new TreeMap<>(Map.of(1024L, 4.0));
    TrialTimes file =
        new TrialTimes(7, "4", "NVIDIA H200", Map.of(inPlace, predicted), calls, List.of());
    LearnedTable table = LearnedTable.of(List.of(file));
    assertEquals("4 AllReduce DirectNVLS Simple 1024:6.40 4096:8.00", table.lines().get(3));
    assertEquals(
        List.of("4 ranks, AllReduce of 4096 bytes: DirectNVLS Simple 8.00 us (chosen)"),
        table.report());
    assertTrue(TunedTable.parse("learned", table.lines()).hasTimes("4"));
  }

  /** Of two communicators, one of which has a rank with another folder. */
  @Test
  void ranksWithoutTheFolderAreNamedWhereNothingWasTried() {
    List<TrialTimes> files = new ArrayList<>(files(3));
    List<TrialTimes.Sample> chosen =
        files.get(0).samples().stream().filter(TrialTimes.Sample::chosen).toList();
    files.add(new TrialTimes(7, "2", "host", Map.of(), List.of(), List.of(1)));
    assertEquals(List.of(), LearnedTable.of(files).notes(), "it came later");
    files.add(new TrialTimes(8, "4", "host", Map.of(), chosen, List.of(2, 3)));
    files.add(new TrialTimes(8, "4", "host", Map.of(), chosen, List.of(0, 1)));
    List<String> notes = LearnedTable.of(files).notes();
    assertEquals(1, notes.size(), notes.toString());
    assertTrue(notes.get(0).contains("4 ranks tried nothing"), notes.toString());
    assertTrue(notes.get(0).contains("its ranks [2, 3] had not joined"), notes.toString());

    List<TrialTimes> few =
        List.of(new TrialTimes(8, "4", "host", Map.of(), List.of(), List.of(2, 3)));
    InvalidArgumentException e =
        assertThrows(InvalidArgumentException.class, () -> LearnedTable.of(few));
    assertEquals(notes.get(0) + "; if others have tried some, let the job run longer", e.remedy());
  }

  @Test
  void predictionsAreCorrectedByTheirErrors() {
    List<String> lines = LearnedTable.of(files(3)).lines();
    assertEquals("device host", lines.get(2));
    assertTrue(
        lines.contains("2 AllReduce Ring Simple 1024:10.00 4096:20.00 16384:40.00"),
        lines.toString());
    assertTrue(
        lines.contains("2 AllReduce Tree Simple 1024:4.50 4096:9.00 16384:18.00"),
        lines.toString());
    assertTrue(
        lines.contains("2 AllReduce TwoShot Simple 1024:60.00"),
        "what was not tried has the choice's error: " + lines);
  }

  @Test
  void theShareIsTheTimeThatTrialsAdd() {
    List<TrialTimes.Sample> samples = new ArrayList<>();
    for (int trial = 1; trial <= 4; trial++) {
      samples.add(sample(0, 250L * trial - 2, RING, 10, 10));
      samples.add(sample(0, 250L * trial - 1, TREE, 12, trial == 2 ? 900 : 20)); // others' work
    }
    assertEquals(4 * 10 / (10 * 1000.0), LearnedTable.of(List.of(file(0, samples))).share(), 1e-9);
  }

  /** A file's figures have two digits behind the point. */
  @Test
  void aPredictionOfNoTimeHasABoundedError() {
    List<TrialTimes.Sample> samples = new ArrayList<>();
    for (int call = 0; call < 3; call++) {
      samples.add(sample(0, call, RING, 0, 1));
    }
    assertTrue(
        LearnedTable.of(List.of(file(0, samples))).lines().stream()
            .noneMatch(line -> line.contains("Infinity")));
  }

  @Test
  void fewTrialsAndOtherDevicesAreRefused() {
    var few = assertThrows(InvalidArgumentException.class, () -> LearnedTable.of(files(2)));
    assertTrue(few.problem().contains("2 times at most"), few.problem());
    List<TrialTimes> mixed = new ArrayList<>(files(3));
    mixed.add(new TrialTimes(8, "2", "NVIDIA H200", Map.of(), List.of(), List.of()));
    var other = assertThrows(InvalidArgumentException.class, () -> LearnedTable.of(mixed));
    assertTrue(other.problem().contains("host and NVIDIA H200"), other.problem());
  }
}
