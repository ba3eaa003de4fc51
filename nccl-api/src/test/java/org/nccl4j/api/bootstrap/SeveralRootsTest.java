package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.nccl4j.api.bootstrap.FormationFailureTest.assertSays;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.nccl4j.api.bootstrap.connection.Deadline;
import org.nccl4j.api.bootstrap.root.RootPartition;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.device.InvalidArgumentException;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.device.TimeoutException;

/** Ranks that come together by several roots. */
class SeveralRootsTest {
  private static final Duration SHORT = Duration.ofSeconds(1);

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
  void everyRankBelongsToOneRootAndBlocksDifferByOneAtMost() {
    for (int n = 1; n <= 40; n++) {
      for (int count = 1; count <= n; count++) {
        RootPartition roots = new RootPartition(n, count);
        int rank = 0;
        for (int root = 0; root < count; root++) {
          assertEquals(rank, roots.first(root));
          int size = roots.blockSize(root);
          assertTrue(size == n / count || size == n / count + 1, n + " ranks, " + count + " roots");
          for (int i = 0; i < size; i++) {
            assertEquals(root, roots.of(rank));
            boolean guest = i == 0 && count > 1;
            assertEquals(guest ? (root + count - 1) % count : -1, roots.hostOf(rank));
            rank++;
          }
        }
        assertEquals(n, rank);
      }
    }
  }

  @ParameterizedTest
  @CsvSource({"2,2", "5,2", "7,3", "6,6", "9,4"})
  void ranksMeetAcrossRoots(int nRanks, int roots) {
    List<BootstrapId> ids = Ranks.newIds(roots);
    List<Ranks.Ended<List<byte[]>>> all =
        Ranks.run(
            nRanks,
            rank -> {
              try (Bootstrap mine =
                  TcpBootstrap.join(Ranks.request(ids, nRanks, rank, Ranks.LONG))) {
                mine.barrier();
                List<byte[]> got = mine.allGather(new byte[] {rank.byteValue()});
                got = new ArrayList<>(got);
                got.add(mine.secret());
                return got;
              }
            });
    String secret = HexFormat.of().formatHex(all.get(0).get().get(nRanks));
    for (Ranks.Ended<List<byte[]>> each : all) {
      for (int rank = 0; rank < nRanks; rank++) {
        assertEquals(rank, each.get().get(rank)[0]);
      }
      assertEquals(secret, HexFormat.of().formatHex(each.get().get(nRanks)));
    }
  }

  /** Each rank hears what each other rank tells, once. */
  @ParameterizedTest
  @CsvSource({"2,1", "5,1", "2,2", "7,3", "9,4"})
  void noticesComeToAllOthersOnce(int nRanks, int roots) {
    List<Bootstrap> ranks = threads(nRanks, roots);
    List<BlockingQueue<String>> heard = new ArrayList<>();
    for (Bootstrap rank : ranks) {
      BlockingQueue<String> own = new LinkedBlockingQueue<>();
      heard.add(own);
      rank.onNotice(notice -> own.add(new String(notice, StandardCharsets.UTF_8)));
    }
    for (int round = 0; round < 3; round++) {
      for (Bootstrap rank : ranks) {
        String text = "rank " + rank.rank() + ", round " + round;
        rank.tellNotice(text.getBytes(StandardCharsets.UTF_8));
      }
    }
    for (int rank = 0; rank < nRanks; rank++) {
      Set<String> all = new HashSet<>();
      for (int left = 3 * (nRanks - 1); left > 0; left--) {
        assertTrue(all.add(poll(heard.get(rank))), "twice");
      }
      assertTrue(all.stream().noneMatch(("rank " + rank)::startsWith), all.toString());
    }
    // What would come around once more is behind what all have said last.
    ranks.get(0).tellNotice("last".getBytes(StandardCharsets.UTF_8));
    for (int rank = 1; rank < nRanks; rank++) {
      assertEquals("last", poll(heard.get(rank)));
    }
    assertEquals(null, heard.get(0).poll());
  }

  @Test
  void someOfTheRanksMeetAgain() {
    List<Bootstrap> ranks = threads(6, 3);
    byte[] lead = ranks.get(1).meetingPoint();
    List<Integer> members = List.of(1, 2, 5);
    List<Ranks.Ended<Integer>> all =
        Ranks.run(
            3,
            index -> {
              Bootstrap old = ranks.get(members.get(index));
              try (Bootstrap made = old.reunite(members, lead, "again")) {
                return made.allGather(new byte[1]).size();
              }
            });
    all.forEach(each -> assertEquals(3, each.get()));
  }

  /** Such as the names of a hundred nested splits. */
  @Test
  void someMeetAgainByALongKey() {
    List<Bootstrap> ranks = threads(2, 1);
    byte[] lead = ranks.get(0).meetingPoint();
    for (String end : List.of("1", "2")) {
      String key = "/split 1.0".repeat(300) + end;
      Ranks.run(2, rank -> ranks.get(rank).reunite(List.of(0, 1), lead, key))
          .forEach(each -> toClose.add(each.get()));
    }
  }

  @Test
  void theWayToRanksThatHaveMetAgainIsForgotten() {
    List<BootstrapId> ids = Ranks.newIds(1);
    List<Bootstrap> ranks =
        Ranks.run(2, rank -> TcpBootstrap.join(Ranks.request(ids, 2, rank, Ranks.LONG))).stream()
            .map(Ranks.Ended::get)
            .toList();
    toClose.addAll(ranks);
    byte[] lead = ranks.get(0).meetingPoint();
    Ranks.run(2, rank -> ranks.get(rank).reunite(List.of(0, 1), lead, "again"))
        .forEach(each -> toClose.add(each.get()));
    byte[] secret = Ranks.request(ids, 2, 1, Ranks.LONG).secret();
    PeerCredentials trust = PeerCredentials.of(secret, Ranks.LOOPBACK.tls());
    String key = SubsetBootstrap.key("again", List.of(0, 1));
    Deadline soon = Deadline.after(Duration.ofSeconds(5));
    assertThrows(
        TimeoutException.class,
        () -> RejoinCall.ask(new RankMonitor(1), RejoinAddress.decode(lead), trust, key, soon));
  }

  @ParameterizedTest
  @CsvSource({"0", "1", "4", "8"})
  void aFailureGoesFromRootToRoot(int rank) {
    List<Bootstrap> ranks = threads(9, 4);
    List<BlockingQueue<NcclException>> heard = Ranks.listen(ranks);
    ranks.get(rank).tellFailure(new SystemErrorException("the disk is full", "empty it"));
    for (int other = 0; other < 9; other++) {
      if (other != rank) {
        assertSays(RemoteException.class, poll(heard.get(other)), "rank " + rank + " (", "disk");
      }
    }
  }

  /** Rank 2 is the first of its root's ranks and the guest of the root before. */
  @ParameterizedTest
  @CsvSource({"1", "2"})
  void aProcessThatIsKilledIsNamedByAllRoots(int victim) throws Exception {
    List<BootstrapId> ids = Ranks.newIds(3);
    String hex = String.join(",", ids.stream().map(SeveralRootsTest::hex).toList());
    RankProcess process = RankProcess.start(hex, 6, victim);
    toClose.add(process);
    List<Bootstrap> ranks =
        Ranks.run(
                5,
                index -> {
                  int rank = index < victim ? index : index + 1;
                  return TcpBootstrap.join(Ranks.request(ids, 6, rank, Ranks.LONG));
                })
            .stream()
            .map(Ranks.Ended::get)
            .toList();
    toClose.addAll(ranks);
    List<BlockingQueue<NcclException>> heard = Ranks.listen(ranks);
    assertEquals("joined", process.says());
    process.kill();
    for (BlockingQueue<NcclException> each : heard) {
      assertSays(
          RemoteException.class, poll(each), "rank " + victim + " (", "ended without closing");
    }
  }

  @Test
  void aRankThatNeverComesIsNamedInAllBlocks() throws Throwable {
    LongerDeadline.retry(SHORT, SeveralRootsTest::oneNeverComes);
  }

  private static void oneNeverComes(Duration deadline) {
    int missing = 1;
    List<BootstrapId> ids = Ranks.newIds(3);
    List<Ranks.Ended<Bootstrap>> all =
        Ranks.run(
            5,
            index -> {
              int rank = index < missing ? index : index + 1;
              return TcpBootstrap.join(Ranks.request(ids, 6, rank, deadline));
            });
    for (Ranks.Ended<Bootstrap> each : all) {
      assertSays(TimeoutException.class, each.failure(), "rank 1 of 6 did not");
    }
  }

  @Test
  void listsOfIdsThatDifferAreNamed() throws Throwable {
    LongerDeadline.retry(SHORT, SeveralRootsTest::listsDiffer);
  }

  private static void listsDiffer(Duration deadline) {
    List<BootstrapId> ids = impatientIds(deadline);
    List<Ranks.Ended<Bootstrap>> fewer =
        Ranks.run(
            2,
            rank ->
                TcpBootstrap.join(
                    Ranks.request(rank == 0 ? ids : List.of(ids.get(0)), 2, rank, deadline)));
    for (Ranks.Ended<Bootstrap> each : fewer) {
      assertSays(InvalidUsageException.class, each.failure(), "was given", "unique ids");
    }
    List<BootstrapId> more = impatientIds(deadline);
    List<BootstrapId> turned = List.of(more.get(1), more.get(0));
    List<Ranks.Ended<Bootstrap>> swapped =
        Ranks.run(
            2,
            rank -> TcpBootstrap.join(Ranks.request(rank == 0 ? more : turned, 2, rank, deadline)));
    for (Ranks.Ended<Bootstrap> each : swapped) {
      assertSays(InvalidUsageException.class, each.failure(), "with unique id");
      assertEquals(
          "pass the same unique ids in the same order to all ranks", each.failure().remedy());
    }
  }

  /** Their roots end soon if no rank gets as far as coming to them. */
  private static List<BootstrapId> impatientIds(Duration deadline) {
    Duration patience = deadline.plusSeconds(1);
    return List.of(
        BootstrapRoot.create(Ranks.LOOPBACK, patience),
        BootstrapRoot.create(Ranks.LOOPBACK, patience));
  }

  @Test
  void wrongNumbersOfIdsAreRefused() {
    List<BootstrapId> ids = Ranks.newIds(2);
    assertSays(
        InvalidArgumentException.class,
        assertThrows(InvalidArgumentException.class, () -> Ranks.request(ids, 1, 0, Ranks.LONG)),
        "2 unique ids for 1 ranks");
    List<BootstrapId> twice = List.of(ids.get(0), ids.get(0));
    assertSays(
        InvalidArgumentException.class,
        assertThrows(InvalidArgumentException.class, () -> Ranks.request(twice, 2, 0, Ranks.LONG)),
        "are the same");
    assertThrows(InvalidArgumentException.class, () -> Ranks.request(List.of(), 2, 0, Ranks.LONG));
    Ranks.run(2, rank -> TcpBootstrap.join(Ranks.request(ids, 2, rank, Ranks.LONG)))
        .forEach(each -> toClose.add(each.get()));
  }

  @Test
  void manyRanksComeOneAfterTheOther() {
    BootstrapOptions.Stagger stagger = new BootstrapOptions.Stagger(1000, 4);
    assertEquals(Duration.ZERO, stagger.delay(3, 4));
    assertEquals(Duration.ofMillis(3), stagger.delay(3, 5));
    BootstrapOptions options =
        Ranks.loopback(Map.of("NCCL_UID_STAGGER_RATE", "1000", "NCCL_UID_STAGGER_THRESHOLD", "4"));
    assertEquals(stagger, options.stagger());
    List<BootstrapId> ids = Ranks.newIds(2);
    Ranks.run(6, rank -> TcpBootstrap.join(new JoinRequest(6, ids, rank, Ranks.LONG, options)))
        .forEach(each -> toClose.add(each.get()));
  }

  private List<Bootstrap> threads(int nRanks, int roots) {
    List<Bootstrap> ranks = Ranks.joined(nRanks, roots);
    toClose.addAll(ranks);
    return ranks;
  }

  private static <T> T poll(BlockingQueue<T> from) {
    try {
      return Ranks.next(from);
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  private static String hex(BootstrapId id) {
    return HexFormat.of().formatHex(id.encode());
  }
}
