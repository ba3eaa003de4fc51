package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.api.bootstrap.root.RankState;
import org.nccl4j.api.observe.JobJson;
import org.nccl4j.api.observe.JobReport;
import org.nccl4j.api.observe.SimulatedRing;
import org.nccl4j.api.observe.flight.StateMessage;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;

/** An observer and the root's answers, without communicators: ranks are threads. */
@Timeout(600)
class JobObserverTest {
  private static final Duration LONG = Duration.ofSeconds(200);
  private static final int STATE_BYTES = 500;

  private static BootstrapId newId() {
    return BootstrapRoot.create(Ranks.loopback(Map.of("NCCL4J_JOB_STATE", "1")), LONG);
  }

  private static List<Bootstrap> join(BootstrapId id, int n) {
    return join(List.of(id), n);
  }

  private static List<Bootstrap> join(List<BootstrapId> ids, int n) {
    return Ranks.run(n, rank -> TcpBootstrap.join(Ranks.request(ids, n, rank, LONG))).stream()
        .map(Ranks.Ended::get)
        .toList();
  }

  private static JobObserver.States ask(BootstrapId id) {
    return JobObserver.ask(id, Ranks.LOOPBACK, LONG);
  }

  /** On a busy machine some ranks may not answer within the root's second at first. */
  private static JobObserver.States askUntilAllAnswer(BootstrapId id) {
    long end = System.nanoTime() + LONG.toNanos();
    JobObserver.States states;
    do {
      states = ask(id);
    } while (!states.ranks().stream().allMatch(RankState::answered) && System.nanoTime() < end);
    return states;
  }

  private static byte[] state(int rank) {
    byte[] bytes = new byte[STATE_BYTES];
    bytes[rank % STATE_BYTES] = (byte) (1 + rank / STATE_BYTES);
    return bytes;
  }

  @Test
  void everyRankAnswers() {
    int n = 64;
    BootstrapId id = newId();
    List<Bootstrap> ranks = join(id, n);
    try {
      ranks.forEach(each -> each.onAsked(question -> state(each.rank())));
      JobObserver.States states = askUntilAllAnswer(id);
      assertTrue(states.formed());
      assertEquals(n, states.nRanks());
      TreeMap<Integer, RankState> byRank =
          states.ranks().stream()
              .collect(Collectors.toMap(RankState::rank, s -> s, (a, b) -> a, TreeMap::new));
      assertEquals(n, states.ranks().size());
      assertEquals(IntStream.range(0, n).boxed().toList(), List.copyOf(byRank.keySet()));
      byRank.forEach(
          (rank, each) -> {
            assertTrue(each.answered());
            assertArrayEquals(state(rank), each.state());
            assertEquals(ProcessHandle.current().pid(), each.pid());
          });
    } finally {
      ranks.forEach(Bootstrap::close);
    }
  }

  /**
   * The whole report of a job with a slow link: the root asks, and all states are read and compared
   * and written. On a busy machine some ranks may not answer within the root's second at first.
   */
  @ParameterizedTest
  @ValueSource(ints = {1, 4})
  void aThousandRanksAreReported(int roots) {
    int n = Integer.getInteger("nccl4j.ranks", 1024);
    SimulatedRing ring = new SimulatedRing(n).withSlowLink(77);
    List<BootstrapId> ids = Stream.generate(JobObserverTest::newId).limit(roots).toList();
    List<Bootstrap> ranks = join(ids, n);
    try {
      ranks.forEach(
          each -> each.onAsked(question -> StateMessage.encode(List.of(ring.report(each.rank())))));
      long end = System.nanoTime() + LONG.toNanos();
      JobReport report;
      long start;
      int asked = 0;
      do {
        start = System.nanoTime();
        report = reportOrNull(ids);
      } while ((report == null
              || !report.silent().isEmpty()
              || !report.unreached().isEmpty()
              || ++asked < 3)
          && System.nanoTime() < end);
      assertNotNull(report, "the root gives no answer in time");
      String json = JobJson.of(report);
      System.out.printf(
          "%d ranks, %d roots: %.3f s%n", n, roots, (System.nanoTime() - start) / 1e9);
      assertTrue(report.isHealthy());
      assertEquals(n, report.ranks().size());
      assertEquals(n, report.communicators().get(0).ranks().size());
      assertEquals(n, report.communicators().get(0).inOperation());
      assertTrue(
          json.contains("\"slowLinks\":[{\"rank\":77,\"peer\":78,\"link\":\"NET/Socket/eth0\""),
          json);
    } finally {
      ranks.forEach(Bootstrap::close);
    }
  }

  /** Null if the root's answer does not come within the limit of a report. */
  private static JobReport reportOrNull(List<BootstrapId> ids) {
    try {
      return JobReport.askRoots(ids, Ranks.LOOPBACK);
    } catch (SystemErrorException e) {
      return null;
    }
  }

  /**
   * Four roots with 1,024 ranks, of which one of each root is silent: each root names it only after
   * its patience, and the report is there after the patience of one.
   */
  @Test
  void rootsAreAskedAtTheSameTime() {
    int n = 1024;
    SimulatedRing ring = new SimulatedRing(n);
    try (SimulatedRoots roots = new SimulatedRoots(4, n, ring)) {
      JobReport report;
      int reports = 0;
      long start;
      do { // on a busy machine a root's answer may come after the limit of a report
        start = System.nanoTime();
        report = reportOrNull(roots.ids());
        reports++;
      } while (reports < 10 && (report == null || !report.unreached().isEmpty()));
      assertNotNull(report, "no root gives an answer in time");
      System.out.printf(
          "%d ranks, 4 roots, 4 silent: %.3f s%n", n, (System.nanoTime() - start) / 1e9);
      String json = JobJson.of(report);
      assertEquals(List.of(), report.unreached());
      assertEquals(List.of(), report.gone());
      assertEquals(n, report.ranks().size());
      assertEquals(
          List.of(0, 256, 512, 768), report.silent().stream().map(JobReport.Rank::rank).toList());
      assertEquals(n - 4, report.communicators().get(0).ranks().size());
      assertTrue(json.endsWith("\"unreachedRoots\":[]}"), json);
    }
  }

  @Test
  void aRootThatIsGoneIsNamed() {
    int n = 8;
    SimulatedRing ring = new SimulatedRing(n);
    try (SimulatedRoots roots = new SimulatedRoots(2, n, ring)) {
      roots.close(1);
      JobReport report;
      int reports = 0;
      do { // on a busy machine the other root's answer may come late
        report = reportOrNull(roots.ids());
        reports++;
      } while (reports < 10
          && (report == null || report.unreached().size() > 1 || report.ranks().size() < 4));
      assertNotNull(report);
      assertEquals(1, report.unreached().size());
      JobReport.UnreachedRoot gone = report.unreached().get(0);
      assertEquals(roots.ids().get(1).where(), gone.where());
      assertTrue(gone.reason().contains(gone.where()), gone.reason());
      assertEquals(List.of(4, 5, 6, 7), report.gone());
      assertEquals(4, report.ranks().size());
      assertFalse(report.isHealthy());
      String json = JobJson.of(report);
      assertTrue(json.contains("\"unreachedRoots\":[{\"root\":\"" + gone.where()), json);
      roots.close(0);
      SystemErrorException refused =
          assertThrows(
              SystemErrorException.class, () -> JobReport.askRoots(roots.ids(), Ranks.LOOPBACK));
      assertTrue(refused.getMessage().contains("cannot be queried"), refused.getMessage());
    }
  }

  /** The observers are no members: exchanges and failures do not know of them. */
  @Test
  void ranksWorkOnWhileTheyAreObserved() {
    BootstrapId id = newId();
    List<Bootstrap> ranks = join(id, 3);
    assertEquals(3, ask(id).ranks().size());
    Ranks.run(3, rank -> ranks.get(rank).allGather(new byte[] {1})).forEach(Ranks.Ended::get);
    ranks.get(2).close();
    List<Integer> left = ask(id).ranks().stream().map(RankState::rank).sorted().toList();
    assertTrue(left.equals(List.of(0, 1)) || left.equals(List.of(0, 1, 2)), left.toString());
    ranks.forEach(Bootstrap::checkFailure);
    ranks.forEach(Bootstrap::close);
  }

  @Test
  void beforeTheRanksHaveCome() {
    BootstrapId id = newId();
    JobObserver.States states = ask(id);
    assertFalse(states.formed());
    assertEquals(0, states.nRanks());
    join(id, 2).forEach(Bootstrap::close);
  }

  @Test
  void withoutTheSettingNobodyListens() {
    BootstrapId id = Ranks.newId();
    List<Bootstrap> ranks = join(id, 2);
    SystemErrorException refused = assertThrows(SystemErrorException.class, () -> ask(id));
    assertTrue(refused.getMessage().contains("NCCL4J_JOB_STATE"), refused.getMessage());
    ranks.forEach(Bootstrap::close);
  }

  @Test
  void aStrangerLearnsNothing() {
    BootstrapId id = newId();
    List<Bootstrap> ranks = join(id, 2);
    BootstrapId wrong = id.withSecret(new byte[BootstrapId.SECRET_BYTES]);
    SystemErrorException refused = assertThrows(SystemErrorException.class, () -> ask(wrong));
    assertTrue(refused.getMessage().contains("secret"), refused.getMessage());
    assertEquals(2, ask(id).ranks().size());
    ranks.forEach(Bootstrap::close);
  }

  /** The port stays open, but not for ranks: those that are there are not disturbed. */
  @Test
  void aRankThatComesLateIsRefused() {
    BootstrapId id = newId();
    List<Bootstrap> ranks = join(id, 2);
    NcclException refused =
        assertThrows(
            NcclException.class, () -> TcpBootstrap.join(Ranks.request(id, 2, 1, LONG)).close());
    assertTrue(refused.getMessage().contains("have already joined"), refused.getMessage());
    TcpBootstrap.tellUnable(2, List.of(id), 1, refused, Ranks.LOOPBACK);
    Ranks.run(2, rank -> ranks.get(rank).allGather(new byte[] {1})).forEach(Ranks.Ended::get);
    ranks.forEach(Bootstrap::checkFailure);
    ranks.forEach(Bootstrap::close);
  }
}
