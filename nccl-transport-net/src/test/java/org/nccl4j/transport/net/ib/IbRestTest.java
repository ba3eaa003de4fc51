package org.nccl4j.transport.net.ib;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.nccl4j.transport.net.ib.verbs.VerbsLayout;

/** Watches of idle connections, which wait in a system call until something happens. */
@Timeout(600)
class IbRestTest extends WithFakeVerbs {
  /** Several times the time between two looks of a watch that does not rest. */
  private static final long STILL_NANOS = 500_000_000;

  private static final long PATIENCE_NANOS = 300_000_000_000L;

  /** Those of networks that earlier tests have left. */
  private final Set<Thread> earlier = Thread.getAllStackTraces().keySet();

  private IbLink link(int devices) {
    for (int d = 0; d < devices; d++) {
      FakeVerbs.addRoce(fake, "roce" + d, 5);
    }
    return new IbLink(
        "NCCL_IB_RESILIENCY_PORT_RECOVERY_START_DELAY", "1", "NCCL_IB_MERGE_NICS", "0");
  }

  private List<Thread> named(String name) {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().startsWith(name) && !earlier.contains(thread))
        .toList();
  }

  private static boolean rests(Thread thread) {
    return Stream.of(thread.getStackTrace())
        .anyMatch(frame -> frame.getMethodName().equals("rest"));
  }

  /** Both ranks' watches rest. */
  private void awaitRest() {
    List<Thread> watches = named("nccl4j-ib-watch");
    assertEquals(2, watches.size());
    IbLink.await(() -> watches.stream().allMatch(IbRestTest::rests));
  }

  @Test
  void idleConnectionsAreNotLookedAt() {
    try (IbLink link = link(1)) {
      for (int round = 0; round < 3; round++) {
        assertTrue(link.moves(5000));
        awaitRest();
      }
      assertTrue(link.moves(5000));
    }
    assertEquals(List.of(), named("nccl4j-ib-"));
    FakeVerbs.empty();
  }

  /**
   * A watch that looked ten times a second would be seen outside of its rest again and again. On a
   * busy machine, one look may still come after the data have.
   */
  @Test
  void theRestLastsUntilSomethingComes() {
    try (IbLink link = link(1)) {
      assertTrue(link.moves(5000));
      awaitRest();
      List<Thread> watches = named("nccl4j-ib-watch");
      long end = System.nanoTime() + PATIENCE_NANOS;
      long stillSince = System.nanoTime();
      while (System.nanoTime() - stillSince < STILL_NANOS) {
        if (!watches.stream().allMatch(IbRestTest::rests)) {
          stillSince = System.nanoTime();
          assertTrue(stillSince < end, "woken although nothing came");
        }
      }
      assertTrue(link.moves(5000));
    }
  }

  @Test
  void aPathThatBreaksMeanwhileIsReplacedWhenDataMoveAgain() {
    try (IbLink link = link(1)) {
      for (int round = 1; round <= 3; round++) {
        awaitRest();
        fake.fake_break(0, round % 3); // nobody notices yet
        assertTrue(link.moves(5000));
        assertEquals(round, link.sender.failovers().count());
      }
      awaitRest();
    }
  }

  @Test
  void aPortThatIsLostMeanwhileIsLeftBeforeDataMove() {
    try (IbLink link = link(2)) {
      awaitRest();
      fake.fake_set_down(0, 1, 1);
      fake.fake_event(0, VerbsLayout.EVENT_PORT_ERR, 1);
      IbLink.await(() -> link.sender.failovers().count() == 1);
      assertEquals("roce1:1 to roce1:1", link.sender.failovers().path());
      assertTrue(link.moves(5000));
      assertEquals(1, link.sender.failovers().count());
    }
  }

  @Test
  void anEventOfTheDeviceEndsTheRest() {
    try (IbLink link = link(2)) {
      awaitRest();
      fake.fake_set_down(0, 1, 1);
      fake.fake_event(0, VerbsLayout.EVENT_PORT_ERR, 1);
      IbLink.await(() -> link.sender.failovers().count() == 1);
      fake.fake_set_down(0, 1, 0);
      fake.fake_event(0, VerbsLayout.EVENT_PORT_ACTIVE, 1);
      IbLink.await(() -> link.sender.failovers().count() == 2);
      awaitRest();
      assertTrue(link.moves(5000));
    }
    FakeVerbs.empty();
  }

  @Test
  void theEndOfTheOtherRankEndsTheRest() {
    try (IbLink link = link(1)) {
      awaitRest();
      link.receiver.close();
      IbLink.await(() -> isGone(link));
    }
  }

  /** True if the sender knows, which does not look itself. */
  private static boolean isGone(IbLink link) {
    IbSender sender = (IbSender) link.sender;
    sender.takeTurn();
    try {
      return sender.link().isOver();
    } finally {
      sender.turn.leave();
    }
  }
}
