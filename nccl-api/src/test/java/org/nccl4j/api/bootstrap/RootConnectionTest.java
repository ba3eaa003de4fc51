package org.nccl4j.api.bootstrap;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.nccl4j.api.bootstrap.connection.Deadline;
import org.nccl4j.api.bootstrap.connection.EventLoop;
import org.nccl4j.api.bootstrap.root.JoinMessage;
import org.nccl4j.api.bootstrap.root.ProcessIdentity;
import org.nccl4j.api.wire.tls.PeerCredentials;
import org.nccl4j.device.NcclException;

/** A rank's wait for its root. */
class RootConnectionTest {
  private static final Duration DEADLINE = Duration.ofMillis(300);
  private static final int MOST_TRIES = 10;

  private final LeftBehind.Earlier earlier = LeftBehind.Earlier.now();

  @AfterEach
  void nothingIsLeft() throws InterruptedException {
    earlier.nothingElse();
  }

  /** As after a stall of the machine, during which the deadline and more have passed. */
  @Test
  void theRootsReasonIsHeardByAThreadThatRunsLongAfterTheDeadline() {
    String said = "";
    // The machine may stall once more before the root's answer has come.
    for (int tries = 0; tries < MOST_TRIES && !said.contains("rank 1 of 2 did not"); tries++) {
      said = waitsInVain();
    }
    assertTrue(said.contains("rank 1 of 2 did not"), said);
  }

  private static String waitsInVain() {
    BootstrapId id = Ranks.newId();
    ProcessIdentity self = ProcessIdentity.ofThisProcess();
    EventLoop loop = EventLoop.acquire();
    RankMonitor monitor = new RankMonitor(0);
    RootConnection root =
        new RootConnection(
            loop,
            monitor,
            id,
            PeerCredentials.in(id.secret()),
            self,
            0,
            Ranks.LONG,
            new FailureBroadcast(monitor),
            new NoticeBroadcast(0));
    try {
      root.connect(id.addresses(), Deadline.after(Ranks.LONG));
      InetSocketAddress here = new InetSocketAddress(InetAddress.getLoopbackAddress(), 1);
      JoinMessage.Place place = new JoinMessage.Place(0, 1, List.of(here));
      root.introduce(new JoinMessage(self, 0, 2, DEADLINE.toMillis(), place));
      long past = System.nanoTime() - Ranks.LONG.toNanos();
      return assertThrows(
              NcclException.class, () -> root.awaitWelcome(new Deadline(past, DEADLINE)))
          .getMessage();
    } finally {
      monitor.close();
      root.leave();
      loop.release();
    }
  }
}
