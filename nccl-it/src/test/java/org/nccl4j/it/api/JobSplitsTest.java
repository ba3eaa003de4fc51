package org.nccl4j.it.api;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.CompletableFuture;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.Communicator;
import org.nccl4j.api.CommunicatorConfig;
import org.nccl4j.api.Devices;
import org.nccl4j.api.UniqueId;
import org.nccl4j.api.observe.JobReport;
import org.nccl4j.api.observe.flight.RankReport;
import org.nccl4j.api.settings.Settings;
import org.nccl4j.device.SystemErrorException;

/** An observer of a job sees splits, whether they have connections of their own or not. */
@Timeout(600)
class JobSplitsTest {
  private static final int RANKS = 4;

  private final UniqueId id =
      UniqueId.create(CommunicatorConfig.defaults().with("NCCL4J_JOB_STATE", "1"));

  private static CommunicatorConfig config(String name, boolean share) {
    return CommunicatorConfig.defaults()
        .withOperationTimeout(Duration.ofSeconds(60))
        .withName(name)
        .withSplitShare(share);
  }

  private Ranks join() {
    List<CompletableFuture<Communicator>> joining =
        IntStream.range(0, RANKS)
            .mapToObj(
                rank ->
                    Communicator.initRankAsync(
                        RANKS, id, rank, Devices.host(), config("all", true)))
            .toList();
    return new Ranks(joining.stream().map(CompletableFuture::join).toList());
  }

  private static Communicator split(Communicator of, int color, String name, boolean share) {
    return of.split(color, of.rank(), config(name + " " + color, share)).orElseThrow();
  }

  /** Ranks of each communicator that a job's state has, by name. */
  private static Map<String, List<Integer>> ranks(JobReport report) {
    Map<String, List<Integer>> ranks = new TreeMap<>();
    report
        .communicators()
        .forEach(
            each ->
                ranks.put(
                    each.ranks().get(0).name(),
                    each.ranks().stream().map(RankReport::rank).toList()));
    return ranks;
  }

  @Test
  void splitsAreShown() throws Exception {
    List<Integer> two = List.of(0, 1);
    Map<String, List<Integer>> expected = new TreeMap<>(Map.of("all", List.of(0, 1, 2, 3)));
    List.of("shared 0", "shared 1", "apart 0", "apart 1", "nested 2", "nested 3")
        .forEach(name -> expected.put(name, two));
    try (Ranks ranks = join()) {
      List<Communicator> shared =
          Ranks.all(ranks.communicators, all -> split(all, all.rank() % 2, "shared", true));
      List<Communicator> apart =
          Ranks.all(ranks.communicators, all -> split(all, all.rank() / 2, "apart", false));
      // By the places of the ranks in their parent: both of a pair have one name.
      List<Communicator> nested =
          Ranks.all(apart, of -> split(of, 2 + apart.indexOf(of) / 2, "nested", false));
      assertEquals(expected, ask());
      apart.forEach(Communicator::close);
      expected.keySet().removeAll(Set.of("apart 0", "apart 1"));
      assertEquals(expected, ask());
      nested.forEach(Communicator::close);
      shared.forEach(Communicator::close);
    }
  }

  /** Asks until all ranks answer: on a busy machine one may be late. */
  private Map<String, List<Integer>> ask() {
    long end = System.nanoTime() + Ranks.PATIENCE_NANOS;
    JobReport report;
    do {
      report = reportOrNull();
    } while ((report == null || !report.silent().isEmpty()) && System.nanoTime() < end);
    assertNotNull(report, "the root gives no answer in time");
    assertTrue(report.silent().isEmpty(), "silent: " + report.silent());
    return ranks(report);
  }

  private JobReport reportOrNull() {
    try {
      return JobReport.ask(List.of(id.toString()), Settings.ofProcess(Map.of()));
    } catch (SystemErrorException e) {
      return null; // the root is late, too
    }
  }
}
