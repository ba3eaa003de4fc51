package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.NcclException;

/**
 * Bootstraps of some ranks that fail with all. Without that, the ranks wait for each other until
 * the deadline.
 */
@Timeout(300)
class SubsetFailureTest {
  private static final List<Integer> MEMBERS = List.of(0, 1);

  private final List<Bootstrap> toClose = new ArrayList<>();

  @AfterEach
  void close() {
    toClose.forEach(Bootstrap::close);
  }

  /** Three ranks, of which the last is no member. */
  private List<Bootstrap> ranks(boolean sockets) {
    List<Bootstrap> ranks = sockets ? Ranks.joined(3, 1) : LocalBootstrap.create(3, Ranks.LONG);
    ranks.forEach(Bootstrap::made);
    toClose.addAll(ranks);
    return ranks;
  }

  private static NcclException failure() {
    return new InvalidUsageException(ErrorId.ABORTED, "rank 2 has died", "find out why");
  }

  /** Another waits for the lead's call, or the lead for the other. */
  @ParameterizedTest
  @CsvSource({"true, 0", "true, 1", "false, 0", "false, 1"})
  void aFailureEndsTheWaitForTheOtherMembers(boolean sockets, int waiting) {
    List<Bootstrap> ranks = ranks(sockets);
    byte[] lead = ranks.get(0).meetingPoint();
    List<Ranks.Ended<Bootstrap>> ended =
        Ranks.run(
            2,
            index -> {
              if (index == 0) {
                return ranks.get(waiting).subset(MEMBERS, lead, "key");
              }
              ranks.get(2).tellFailure(failure());
              return null;
            });
    assertNamesTheCause(ended.get(0));
  }

  /** The lead, or another, before it has reached the new root. */
  @ParameterizedTest
  @ValueSource(ints = {0, 1})
  void anInterruptionIsToldToTheOtherMembers(int interrupted) {
    List<Bootstrap> ranks = ranks(/* sockets= */ true);
    byte[] lead = ranks.get(0).meetingPoint();
    List<Ranks.Ended<Bootstrap>> ended =
        Ranks.run(
            2,
            rank -> {
              if (rank == interrupted) {
                Thread.currentThread().interrupt();
              }
              return ranks.get(rank).subset(MEMBERS, lead, "key");
            });
    assertEquals(ErrorId.INTERRUPTED, ended.get(interrupted).failure().id());
    NcclException told = ended.get(1 - interrupted).failure();
    assertTrue(told.problem().contains("was interrupted"), told.problem());
  }

  private static void assertNamesTheCause(Ranks.Ended<?> ended) {
    String problem = ended.failure().problem();
    assertTrue(problem.endsWith("rank 2 has died"), problem);
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aFailureEndsAnExchange(boolean sockets) {
    List<Bootstrap> ranks = ranks(sockets);
    byte[] lead = ranks.get(0).meetingPoint();
    List<Bootstrap> subset =
        Ranks.run(2, rank -> ranks.get(rank).subset(MEMBERS, lead, "key")).stream()
            .map(Ranks.Ended::get)
            .toList();
    toClose.addAll(subset);
    CountDownLatch begins = new CountDownLatch(1);
    List<Ranks.Ended<Object>> ended =
        Ranks.run(
            2,
            index -> {
              if (index == 0) {
                begins.countDown();
                subset.get(0).barrier();
                return null;
              }
              await(begins);
              ranks.get(2).tellFailure(failure());
              return null;
            });
    assertNamesTheCause(ended.get(0));
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new AssertionError(e);
    }
  }

  /** Ranks that are left after a failure form a communicator without the others. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aReunionComesAboutAfterAFailure(boolean sockets) {
    List<Bootstrap> ranks = ranks(sockets);
    byte[] lead = ranks.get(0).meetingPoint();
    ranks.get(2).tellFailure(failure());
    Ranks.run(2, rank -> ranks.get(rank).reunite(MEMBERS, lead, "key"))
        .forEach(each -> toClose.add(each.get()));
  }
}
