package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.BooleanSupplier;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.TimeoutException;

/** Ranks learn that one of them failed, died, or left. */
class FailureChannelTest {
  private final LeftBehind.Earlier earlier = LeftBehind.Earlier.now();
  private final List<AutoCloseable> toClose = new ArrayList<>();

  @AfterEach
  void nothingIsLeft() throws Exception {
    for (AutoCloseable each : toClose) {
      each.close();
    }
    earlier.nothingElse();
  }

  @Test
  void theFirstCauseReachesEveryRank() throws Exception {
    List<Bootstrap> ranks = threads(5);
    List<BlockingQueue<NcclException>> heard = Ranks.listen(ranks);
    ranks.forEach(Bootstrap::checkFailure);
    NcclException full = new SystemErrorException("the disk is full", "empty it");
    ranks.get(3).tellFailure(full);
    assertSame(full, heard.get(3).poll());
    for (int rank : new int[] {0, 1, 2, 4}) {
      NcclException cause = Ranks.next(heard.get(rank));
      FormationFailureTest.assertSays(
          RemoteException.class, cause, "rank 3 (host ", "process ", "failed: the disk is full");
      assertEquals("empty it", cause.remedy());
      assertEquals(SystemErrorException.class, cause.getCause().getClass());
      FormationFailureTest.assertSays(
          RemoteException.class,
          assertThrows(NcclException.class, ranks.get(rank)::checkFailure),
          "the disk is full");
    }
    ranks.get(1).tellFailure(new SystemErrorException("another", "none"));
    ranks.forEach(Bootstrap::close);
    assertEquals(List.of(), heard.stream().filter(each -> !each.isEmpty()).toList());
  }

  /** A rank whose exchange has failed knows at once that its communicator is of no more use. */
  @Test
  void aRankHearsOfItsOwnExchangeThatFailed() throws Exception {
    List<Bootstrap> ranks = threads(2);
    ranks.forEach(Bootstrap::made);
    List<BlockingQueue<NcclException>> heard = Ranks.listen(ranks);
    Thread.currentThread().interrupt();
    NcclException thrown = assertThrows(NcclException.class, () -> ranks.get(0).barrier());
    assertTrue(Thread.interrupted());
    assertSame(thrown, heard.get(0).poll());
  }

  @Test
  void aFailureWakesThoseWhoWait() throws Exception {
    List<Bootstrap> ranks = threads(4);
    List<Ranks.Ended<Object>> all =
        Ranks.run(
            4,
            rank -> {
              if (rank == 2) {
                ranks.get(2).tellFailure(new SystemErrorException("no memory", "buy some"));
                return null;
              }
              return ranks.get(rank).allGather(new byte[8]);
            });
    for (int rank : new int[] {0, 1, 3}) {
      FormationFailureTest.assertSays(
          RemoteException.class, all.get(rank).failure(), "rank 2 (", "no memory");
    }
    assertThrows(SystemErrorException.class, () -> ranks.get(2).barrier());
  }

  @Test
  void leavingAfterAFailureIsNotTakenForTheCause() throws Exception {
    for (int round = 0; round < 30; round++) {
      List<Bootstrap> ranks = threads(4);
      List<Ranks.Ended<Object>> all =
          Ranks.run(
              4,
              rank -> {
                try (Bootstrap mine = ranks.get(rank)) {
                  if (rank == 2) {
                    mine.tellFailure(new SystemErrorException("no memory", "buy some"));
                    return null;
                  }
                  return mine.allGather(new byte[8]);
                }
              });
      for (int rank : new int[] {0, 1, 3}) {
        FormationFailureTest.assertSays(
            RemoteException.class, all.get(rank).failure(), "rank 2 (", "no memory");
      }
    }
  }

  @Test
  void aListenerThatComesLateIsCalledAtOnce() throws Exception {
    List<Bootstrap> ranks = threads(2);
    List<BlockingQueue<NcclException>> heard = Ranks.listen(ranks);
    ranks.get(0).tellFailure(new SystemErrorException("one", "two"));
    assertTrue(Ranks.next(heard.get(1)) != null);
    List<Bootstrap> more = threads(2);
    more.get(0).tellFailure(new SystemErrorException("three", "four"));
    assertThrows(RemoteException.class, () -> more.get(1).barrier());
    List<NcclException> told = new ArrayList<>();
    more.get(1).onFailure(told::add);
    assertEquals(1, told.size());
  }

  @Test
  void aRankThatDoesNotTakePartIsNamedOnAllThatWait() throws Throwable {
    LongerDeadline.retry(Duration.ofSeconds(3), this::oneDoesNotTakePart);
  }

  private void oneDoesNotTakePart(Duration deadline) {
    BootstrapId id = Ranks.newId();
    List<Ranks.Ended<Object>> all =
        Ranks.run(
            4,
            rank -> {
              Bootstrap mine = TcpBootstrap.join(Ranks.request(id, 4, rank, deadline));
              keep(mine);
              return rank == 2 ? null : mine.allGather(new byte[8]);
            });
    int timedOut = 0;
    for (int rank : new int[] {0, 1, 3}) {
      NcclException failure = all.get(rank).failure();
      assertTrue(failure.problem().contains("rank 2 has not joined"), failure.toString());
      timedOut += failure instanceof TimeoutException ? 1 : 0;
    }
    assertTrue(timedOut > 0);
  }

  @Test
  void aRankThatLeavesDuringAnExchangeIsNamed() throws Exception {
    List<Bootstrap> ranks = threads(3);
    List<Ranks.Ended<Object>> all =
        Ranks.run(
            3,
            rank -> {
              if (rank == 1) {
                ranks.get(1).close();
                return null;
              }
              return ranks.get(rank).allGather(new byte[8]);
            });
    for (int rank : new int[] {0, 2}) {
      String problem = all.get(rank).failure().problem();
      assertTrue(
          problem.contains("rank 1 (") && problem.contains("closed its communicator"), problem);
    }
  }

  @Test
  void leavingInAnyOrderIsNoFailure() throws Exception {
    for (int first = 0; first < 4; first++) {
      List<Bootstrap> ranks = threads(4);
      List<BlockingQueue<NcclException>> heard = Ranks.listen(ranks);
      ranks.get(first).close();
      ranks.get(first).close();
      ranks.forEach(Bootstrap::close);
      earlier.nothingElse();
      assertTrue(heard.stream().allMatch(BlockingQueue::isEmpty), heard.toString());
      Bootstrap closed = ranks.get(first);
      assertThrows(InvalidUsageException.class, closed::barrier);
    }
  }

  @Test
  void anInterruptEndsTheWaitAndTellsTheOthers() throws Exception {
    List<Bootstrap> ranks = threads(2);
    List<BlockingQueue<NcclException>> heard = Ranks.listen(ranks);
    Ranks.Ended<List<byte[]>> ended =
        Ranks.run(
                1,
                any -> {
                  Thread.currentThread().interrupt();
                  return ranks.get(0).allGather(new byte[1]);
                })
            .get(0);
    assertTrue(ended.failure().problem().contains("interrupted"));
    assertTrue(Ranks.next(heard.get(1)).problem().contains("interrupted"));
  }

  @ParameterizedTest
  @ValueSource(ints = {0, 2})
  void aProcessThatIsKilledIsNamedToAllOthers(int victim) throws Exception {
    BootstrapId id = Ranks.newId();
    String hex = HexFormat.of().formatHex(id.encode());
    RankProcess other = keep(RankProcess.start(hex, 4, victim));
    RankProcess witness = keep(RankProcess.start(hex, 4, victim + 1));
    int[] mine = victim == 0 ? new int[] {2, 3} : new int[] {0, 1};
    List<Ranks.Ended<Bootstrap>> joined =
        Ranks.run(2, index -> TcpBootstrap.join(Ranks.request(id, 4, mine[index], Ranks.LONG)));
    List<Bootstrap> ranks = joined.stream().map(Ranks.Ended::get).toList();
    toClose.addAll(ranks);
    assertEquals("joined", other.says());
    assertEquals("joined", witness.says());
    List<BlockingQueue<NcclException>> heard = Ranks.listen(ranks);
    long start = System.nanoTime();
    other.kill();
    for (BlockingQueue<NcclException> each : heard) {
      NcclException cause = Ranks.next(each);
      FormationFailureTest.assertSays(
          RemoteException.class,
          cause,
          "rank " + victim + " (host ",
          "process " + other.pid(),
          "ended without closing");
    }
    System.out.println(
        "told of a killed process after " + (System.nanoTime() - start) / 1_000_000 + " ms");
    assertTrue(witness.says().contains("process " + other.pid()));
  }

  @Test
  void aProcessThatIsStoppedIsNamed() throws Throwable {
    LongerDeadline.retry(Duration.ofSeconds(2), this::stoppedIsNamed);
  }

  private void stoppedIsNamed(Duration silence) throws Exception {
    BootstrapId id = Ranks.newId();
    String hex = HexFormat.of().formatHex(id.encode());
    RankProcess other = keep(RankProcess.start(hex, 2, 1, silence.toMillis()));
    Bootstrap rank = TcpBootstrap.join(Ranks.request(id, 2, 0, Ranks.LONG));
    toClose.add(rank);
    assertEquals("joined", other.says());
    List<BlockingQueue<NcclException>> heard = Ranks.listen(List.of(rank));
    other.signal("STOP");
    NcclException cause = Ranks.next(heard.get(0));
    other.signal("CONT");
    FormationFailureTest.assertSays(
        RemoteException.class,
        cause,
        "rank 1 (host ",
        "process " + other.pid(),
        "no heartbeat for ");
  }

  @Test
  void aRootThatIsStoppedIsNamed() throws Throwable {
    LongerDeadline.retry(Duration.ofSeconds(2), this::stoppedRootIsNamed);
  }

  private void stoppedRootIsNamed(Duration silence) throws Exception {
    RankProcess root = keep(RankProcess.start("new", 2, 0));
    BootstrapId id = BootstrapId.decode(HexFormat.of().parseHex(root.says()));
    JoinRequest usual = Ranks.request(id, 2, 1, Ranks.LONG);
    BootstrapOptions impatient =
        Ranks.loopback(Map.of("NCCL4J_HEARTBEAT_TIMEOUT", silence.toSeconds() + "s"));
    Bootstrap rank = TcpBootstrap.join(new JoinRequest(2, id, 1, usual.deadline(), impatient));
    toClose.add(rank);
    assertEquals("joined", root.says());
    List<BlockingQueue<NcclException>> heard = Ranks.listen(List.of(rank));
    root.signal("STOP");
    NcclException cause = Ranks.next(heard.get(0));
    root.signal("CONT");
    FormationFailureTest.assertSays(
        RemoteException.class, cause, "bootstrap root (rank 0, host ", "no heartbeat for ");
  }

  @Test
  void aRootWithoutRanksThatIsStoppedIsLeft() throws Throwable {
    LongerDeadline.retry(Duration.ofSeconds(1), this::stoppedRootIsLeft);
  }

  private void stoppedRootIsLeft(Duration silence) throws Exception {
    RankProcess root = keep(RankProcess.start("root", 2, 0));
    List<Bootstrap> ranks = rootedAt(root, silence);
    List<BlockingQueue<NcclException>> heard = Ranks.listen(ranks);
    root.signal("STOP");
    for (Bootstrap each : ranks) {
      until(() -> !rootOf(each).alive() || hasFailed(each));
    }
    ranks.forEach(Bootstrap::checkFailure);
    assertTrue(heard.stream().allMatch(BlockingQueue::isEmpty), heard.toString());
    Ranks.run(2, rank -> ranks.get(rank).allGather(new byte[1])).forEach(Ranks.Ended::get);
    root.signal("CONT");
    ranks.get(0).tellFailure(new SystemErrorException("the disk is full", "empty it"));
    FormationFailureTest.assertSays(
        RemoteException.class, Ranks.next(heard.get(1)), "the disk is full");
  }

  @Test
  void aFailureTakesTheRingWhereTheRootMayHaveEnded() throws Exception {
    RankProcess root = keep(RankProcess.start("root", 2, 0));
    List<Bootstrap> ranks = rootedAt(root, Ranks.LONG);
    List<BlockingQueue<NcclException>> heard = Ranks.listen(ranks);
    root.signal("STOP");
    ranks.get(0).tellFailure(new SystemErrorException("the disk is full", "empty it"));
    FormationFailureTest.assertSays(
        RemoteException.class, Ranks.next(heard.get(1)), "the disk is full");
    root.signal("CONT");
  }

  /** Two ranks of a root in a process without ranks; they know that it may end. */
  private List<Bootstrap> rootedAt(RankProcess root, Duration silence) throws Exception {
    BootstrapId id = BootstrapId.decode(HexFormat.of().parseHex(root.says()));
    JoinRequest usual = Ranks.request(id, 2, 0, Ranks.LONG);
    BootstrapOptions impatient =
        Ranks.loopback(Map.of("NCCL4J_HEARTBEAT_TIMEOUT", silence.toSeconds() + "s"));
    List<Bootstrap> ranks =
        Ranks.run(
                2,
                rank ->
                    keep(
                        TcpBootstrap.join(
                            new JoinRequest(2, id, rank, usual.deadline(), impatient))))
            .stream()
            .map(Ranks.Ended::get)
            .toList();
    for (Bootstrap each : ranks) {
      until(() -> !rootOf(each).stays());
    }
    return ranks;
  }

  private static RootConnection rootOf(Bootstrap rank) {
    return ((TcpBootstrap) rank).root();
  }

  private static boolean hasFailed(Bootstrap rank) {
    try {
      rank.checkFailure();
      return false;
    } catch (NcclException e) {
      return true;
    }
  }

  private static void until(BooleanSupplier so) {
    long end = System.nanoTime() + Ranks.LONG.toNanos();
    while (!so.getAsBoolean()) {
      assertTrue(System.nanoTime() - end < 0, "waited too long");
      Thread.yield();
    }
  }

  @Test
  void theDeathOfTheRootsProcessIsNamed() throws Exception {
    RankProcess root = keep(RankProcess.start("new", 3, 0));
    BootstrapId id = BootstrapId.decode(HexFormat.of().parseHex(root.says()));
    List<Bootstrap> ranks =
        Ranks.run(2, index -> TcpBootstrap.join(Ranks.request(id, 3, index + 1, Ranks.LONG)))
            .stream()
            .map(Ranks.Ended::get)
            .toList();
    toClose.addAll(ranks);
    assertEquals("joined", root.says());
    List<BlockingQueue<NcclException>> heard = Ranks.listen(ranks);
    root.kill();
    for (BlockingQueue<NcclException> each : heard) {
      NcclException cause = Ranks.next(each);
      FormationFailureTest.assertSays(
          RemoteException.class, cause, "bootstrap root (rank 0, host ", "process " + root.pid());
    }
  }

  @Test
  void theRootsDeathWhileRanksComeTogetherIsNamed() throws Exception {
    RankProcess root = keep(RankProcess.start("new", 3, 0));
    BootstrapId id = BootstrapId.decode(HexFormat.of().parseHex(root.says()));
    List<Ranks.Ended<Bootstrap>> all =
        Ranks.run(
            2,
            index -> {
              if (index == 1) {
                root.kill();
                return null;
              }
              return TcpBootstrap.join(Ranks.request(id, 3, 1, Ranks.LONG));
            });
    assertTrue(all.get(0).failure().problem().contains("bootstrap root"));
  }

  @Test
  void afterTheRootHasLeftFailuresGoAlongTheRing() throws Exception {
    RankProcess root = keep(RankProcess.start("new", 5, 0));
    String id = root.says();
    RankProcess victim = keep(RankProcess.start(id, 5, 1));
    List<Bootstrap> ranks =
        Ranks.run(
                3,
                index ->
                    TcpBootstrap.join(
                        Ranks.request(
                            BootstrapId.decode(HexFormat.of().parseHex(id)),
                            5,
                            index + 2,
                            Ranks.LONG)))
            .stream()
            .map(Ranks.Ended::get)
            .toList();
    toClose.addAll(ranks);
    assertEquals("joined", victim.says());
    List<BlockingQueue<NcclException>> heard = Ranks.listen(ranks);
    root.leave();
    ranks.forEach(each -> until(() -> !rootOf(each).stays()));
    assertTrue(heard.stream().allMatch(BlockingQueue::isEmpty), heard.toString());
    victim.kill();
    for (BlockingQueue<NcclException> each : heard) {
      FormationFailureTest.assertSays(
          RemoteException.class, Ranks.next(each), "rank 1 (host ", "process " + victim.pid());
    }
  }

  @Test
  void noticesGoAlongTheRingToo() throws Exception {
    RankProcess root = keep(RankProcess.start("new", 4, 0));
    BootstrapId id = BootstrapId.decode(HexFormat.of().parseHex(root.says()));
    List<Bootstrap> ranks =
        Ranks.run(3, index -> TcpBootstrap.join(Ranks.request(id, 4, index + 1, Ranks.LONG)))
            .stream()
            .map(Ranks.Ended::get)
            .toList();
    toClose.addAll(ranks);
    BlockingQueue<String> heard = new LinkedBlockingQueue<>();
    ranks.get(0).tellNotice(new byte[] {1});
    ranks.get(2).onNotice(notice -> heard.add("3 heard " + notice[0]));
    assertEquals("3 heard 1", Ranks.next(heard));
    root.leave();
    ranks.forEach(each -> until(() -> !rootOf(each).stays())); // it passes on no more
    ranks.get(0).tellNotice(new byte[] {2});
    assertEquals("3 heard 2", Ranks.next(heard));
    ranks.get(1).onNotice(notice -> heard.add("2 heard " + notice[0]));
    assertEquals("2 heard 1", Ranks.next(heard), "who listens late hears all");
    assertEquals("2 heard 2", Ranks.next(heard));
    ranks.get(1).tellNotice(new byte[] {3});
    ranks.get(1).close();
    assertEquals("3 heard 3", Ranks.next(heard), "the last before it leaves");
    assertTrue(heard.isEmpty(), heard.toString());
  }

  private <T extends AutoCloseable> T keep(T closeable) {
    synchronized (toClose) {
      toClose.add(closeable);
    }
    return closeable;
  }

  private List<Bootstrap> threads(int nRanks) {
    List<Bootstrap> ranks = Ranks.joined(nRanks, 1);
    toClose.addAll(ranks);
    return ranks;
  }
}
