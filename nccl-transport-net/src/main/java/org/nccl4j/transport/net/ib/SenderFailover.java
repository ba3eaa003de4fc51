package org.nccl4j.transport.net.ib;

import static org.nccl4j.transport.net.ib.verbs.VerbsLayout.WC_SUCCESS;

import java.lang.System.Logger;
import java.time.Duration;
import org.nccl4j.api.spi.Failovers;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.device.support.Patience;
import org.nccl4j.transport.net.failover.Failover;
import org.nccl4j.transport.net.ib.PathChoice.Path;
import org.nccl4j.transport.net.ib.control.ControlDialer;
import org.nccl4j.transport.net.ib.control.FailoverMessage;
import org.nccl4j.transport.net.ib.control.FailoverMessage.Kind;
import org.nccl4j.transport.net.ib.control.RemoteQpInfo;

/**
 * The sender's part in a move: chooses the ports, tests the new queue pairs, and returns to the
 * ports that the connection was made at once they are up again.
 */
final class SenderFailover extends QpFailover {
  private static final long CHOICE_NANOS = 20_000_000;

  /** Time before ports are looked at again if none is up: asking devices takes time. */
  private static final long NONE_UP_NANOS = 100_000_000;

  /** Time for the first test of a path; doubled for each test that has failed. */
  private static final long TEST_NANOS = 250_000_000;

  private static final int MOST_DOUBLINGS = 4;

  /** Time for an answer, after which another control connection is dialled. */
  private static final long ANSWER_NANOS = 1_000_000_000;

  /** Doublings of the time before a return. */
  private static final int MOST_RETURN_DOUBLINGS = 10;

  private enum Stage {
    /** Nothing is asked for: all is well, or no two ports are up. */
    NONE,
    /** Waits for the receiver's queue pairs. */
    OFFERED,
    /** Waits for what was sent over each queue pair to arrive. */
    TESTING,
    /** Waits for what the receiver has. */
    SWITCHED
  }

  private final IbSender sender;
  private final PathChoice choice;
  private final Path home;
  private Path current;
  private Path wanted;
  private Stage stage = Stage.NONE;
  private long stageSince;
  private long nextChoice;
  private int epoch;
  private int tested;
  private ControlDialer dialer;
  private int redials;
  private long askedAt;
  private long heardAt;
  private long activeThere = -1;
  private int moves;
  private long returnAt;

  /** Any thread reads it. */
  private volatile Failovers failovers = Failovers.NONE;

  SenderFailover(IbSender sender, Duration bound) {
    super(sender, bound);
    this.sender = sender;
    this.home = new Path(LocalPorts.HOME, end.remote().nic());
    this.current = home;
    this.choice = new PathChoice(end.ports.count(), end.remote().nics(), home);
  }

  Failovers failovers() {
    return failovers;
  }

  @Override
  void broken(NcclException why) {
    drop();
    stage = Stage.NONE;
    nextChoice = 0;
  }

  @Override
  void step(long now) {
    checkTime(now);
    tellTrouble(epoch, now);
    if (dialer != null) {
      dial(now);
    }
    switch (stage) {
      case NONE -> {
        if (isBroken()) {
          choose(now);
        } else if (isReturnDue(now)) {
          offer(home, now);
        } else {
          checkControl(now);
        }
      }
      case TESTING -> test(now);
      case OFFERED, SWITCHED -> {
        if (now - stageSince > ANSWER_NANOS) {
          if (isBroken()) {
            beginToDial();
          } else {
            reject("no answer", now);
          }
        }
      }
    }
  }

  /**
   * Begins to dial another control connection: this one may go over a port that is down. That is
   * not given up, even if an answer comes: the receiver may have left this one for the other.
   */
  private void beginToDial() {
    if (dialer == null) {
      dialer = sender.redial(++redials);
    }
  }

  /** Goes on over the other control connection, whose receiver knows nothing of a move. */
  private void dial(long now) {
    if (!dialer.step()) {
      return;
    }
    end.talkOver(dialer.link());
    dialer = null;
    askedAt = 0;
    if (stage != Stage.NONE && !isBroken()) {
      reject("the receiver has been dialled again", now);
    }
    drop();
    stage = Stage.NONE;
    nextChoice = now;
  }

  @Override
  boolean isDialling() {
    return dialer != null;
  }

  /**
   * A receiver whose port is down cannot say so if the control connection goes over that port. So a
   * sender that waits for announcements for long asks whether it is heard, and dials another.
   */
  private void checkControl(long now) {
    long since = sender.waitsSince();
    if (since == 0 || now - since < ANSWER_NANOS) {
      askedAt = 0;
    } else if (askedAt == 0 || askedAt - heardAt < 0 && now - askedAt > ANSWER_NANOS) {
      askedAt = now;
      end.link().send(FailoverMessage.of(Kind.PING));
    } else if (askedAt - heardAt >= 0 && now - askedAt > ANSWER_NANOS) {
      beginToDial();
    }
  }

  /** {@inheritDoc} Not while a return is due, or an answer. */
  @Override
  boolean mayRest() {
    return super.mayRest() && stage == Stage.NONE && returnAt == 0 && askedAt == 0;
  }

  @Override
  void close() {
    super.close();
    if (dialer != null) {
      dialer.close();
    }
  }

  private void choose(long now) {
    if (now - nextChoice < 0) {
      return;
    }
    nextChoice = now + CHOICE_NANOS;
    Path best = choice.next(current, end.ports.active(end.settings), activeThere);
    if (best == null) {
      // The receiver says with its answer which of its ports are up: one may be up again.
      activeThere = -1;
      nextChoice = now + NONE_UP_NANOS;
    } else {
      offer(best, now);
    }
  }

  private boolean isReturnDue(long now) {
    if (returnAt == 0 || now - returnAt < 0) {
      return false;
    }
    if (end.ports.isActive(end.settings, home.here())) {
      return true;
    }
    delayReturn(now);
    return false;
  }

  private void delayReturn(long now) {
    returnAt = now + (end.settings.returnDelayNanos() << Math.min(moves, MOST_RETURN_DOUBLINGS));
  }

  private void offer(Path path, long now) {
    wanted = path;
    epoch++;
    try {
      fresh = end.open(path.here());
    } catch (NcclException e) {
      reject(e.problem(), now);
      return;
    }
    stage = Stage.OFFERED;
    stageSince = now;
    say(Kind.OFFER, epoch, path.there(), "", end.describe(fresh, path.here()));
  }

  /** The wanted path does not work. */
  private void reject(String why, long now) {
    LOG.log(
        Logger.Level.DEBUG,
        "InfiniBand: no path from {0} to NIC {1} of rank {2}: {3}",
        end.ports.get(wanted.here()).name(),
        wanted.there(),
        end.remote().rank(),
        why);
    choice.failed(wanted);
    drop();
    stage = Stage.NONE;
    nextChoice = now;
    if (!isBroken()) {
      moves++;
      delayReturn(now);
    }
  }

  @Override
  void take(FailoverMessage message, long now) {
    heardAt = now;
    if (message.kind() == Kind.PONG) {
      return;
    }
    if (message.kind() == Kind.ASK) {
      activeThere = message.active();
      asked(message);
      return;
    }
    if (message.epoch() != epoch) {
      return; // an answer to an attempt that was given up
    }
    activeThere = message.active();
    switch (message.kind()) {
      case ANSWER -> {
        if (stage == Stage.OFFERED) {
          answered(message.end(), now);
        }
      }
      case REFUSE -> {
        if (stage != Stage.NONE) {
          reject("it says: " + message.reason(), now);
        }
      }
      case POSITION -> {
        if (stage == Stage.SWITCHED) {
          finish(message, now);
        }
      }
      default -> LOG.log(Logger.Level.DEBUG, "InfiniBand: a receiver says {0}", message.kind());
    }
  }

  /** The receiver cannot use the queue pairs. Once the sender has broken too, it knows. */
  private void asked(FailoverMessage ask) {
    if (isBroken()) {
      heard(ask);
    } else {
      begin(
          new RemoteException(
              ErrorId.CONNECTION,
              "%s: %s".formatted(end.remote().describe(), ask.reason()),
              "see that rank's first error, its cables and its kernel's log (dmesg)"));
    }
  }

  private void answered(RemoteQpInfo there, long now) {
    try {
      fresh.connect(end.settings, there);
      for (int pair = 0; pair < fresh.pairs.length; pair++) {
        sender.postTest(fresh, pair);
      }
    } catch (NcclException e) {
      reject(e.problem(), now);
      return;
    }
    tested = 0;
    stage = Stage.TESTING;
    stageSince = now;
  }

  private void test(long now) {
    try {
      for (PortQueues port : fresh.ports) {
        int count = port.completions.poll();
        for (int i = 0; i < count; i++) {
          int status = port.completions.status(i);
          if (status != WC_SUCCESS) {
            reject(port.device.verbs().statusName(status), now);
            return;
          }
          tested++;
        }
      }
      if (tested == fresh.pairs.length) {
        change(now);
      } else if (now - stageSince
          > TEST_NANOS << Math.min(choice.failures(wanted), MOST_DOUBLINGS)) {
        reject("nothing arrives", now);
      }
    } catch (NcclException e) {
      reject(e.problem(), now);
    }
  }

  /** The new queue pairs work: the old ones end. */
  private void change(long now) {
    end.adopt(fresh);
    if (!isBroken()) {
      plan(
          new RemoteException(
              ErrorId.CONNECTION,
              "the ports that the connection was made at are up again",
              "see the first error of %s, which has not answered"
                  .formatted(end.remote().describe())));
    }
    stage = Stage.SWITCHED;
    stageSince = now;
    say(Kind.SWITCH, epoch, wanted.there(), cause().problem(), null);
  }

  private void finish(FailoverMessage position, long now) {
    String left = end.leftPath();
    String reason = cause().problem();
    long nanos = nanos(now);
    tookOver(now);
    long again = sender.resume(position.next(), position.waiting());
    stage = Stage.NONE;
    current = wanted;
    choice.forget();
    moves++;
    returnAt = 0;
    if (!current.equals(home) && end.settings.returns()) {
      delayReturn(now);
    }
    String ports = end.portNames();
    failovers = failovers.and(new Failovers(1, System.currentTimeMillis(), again, ports));
    Failover.commit("IB", left, end.path(), reason, again, nanos);
    LOG.log(
        Logger.Level.WARNING,
        "InfiniBand: the path {0} has been left ({1}); the path {2} has taken over after {3}, {4}"
            + " bytes are sent again",
        left,
        reason,
        end.path(),
        Patience.text(Duration.ofNanos(nanos)),
        Long.toString(again));
  }
}
