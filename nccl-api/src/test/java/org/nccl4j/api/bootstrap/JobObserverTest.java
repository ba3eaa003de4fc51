package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.List;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.api.bootstrap.root.RankState;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.SystemErrorException;

/** An observer and the root's answers, without communicators: ranks are threads. */
@Timeout(300)
class JobObserverTest {
  private static final Duration LONG = Duration.ofSeconds(200);
  private static final int STATE_BYTES = 500;

  private static BootstrapId newId() {
    return BootstrapRoot.create(Ranks.LOOPBACK.withObservers(), LONG);
  }

  private static List<Bootstrap> join(BootstrapId id, int n) {
    return Ranks.run(n, rank -> TcpBootstrap.join(Ranks.request(id, n, rank, LONG))).stream()
        .map(Ranks.Ended::get)
        .toList();
  }

  private static JobObserver.States ask(BootstrapId id) {
    return JobObserver.ask(id, Ranks.LOOPBACK, LONG);
  }

  private static byte[] state(int rank) {
    byte[] bytes = new byte[STATE_BYTES];
    bytes[rank % STATE_BYTES] = (byte) (1 + rank / STATE_BYTES);
    return bytes;
  }

  /** Asks twice, and returns the seconds of the second time. */
  private static double asksAll(int n) {
    BootstrapId id = newId();
    List<Bootstrap> ranks = join(id, n);
    try {
      ranks.forEach(each -> each.onStateAsked(() -> state(each.rank())));
      ask(id);
      long start = System.nanoTime();
      JobObserver.States states = ask(id);
      double seconds = (System.nanoTime() - start) / 1e9;
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
      return seconds;
    } finally {
      ranks.forEach(Bootstrap::close);
    }
  }

  @Test
  void everyRankAnswers() {
    asksAll(64);
  }

  @Test
  @Tag("slow")
  void thousandRanksAnswerInTwoSeconds() {
    double seconds = asksAll(1024);
    System.out.printf("1024 ranks: %.3f s%n", seconds);
    assertTrue(seconds < 2, seconds + " s");
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
