package org.nccl4j.transport.net.ib;

import java.lang.System.Logger;
import java.time.Duration;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.NcclException;
import org.nccl4j.device.support.Patience;
import org.nccl4j.transport.net.ib.control.FailoverMessage;
import org.nccl4j.transport.net.ib.control.FailoverMessage.Kind;
import org.nccl4j.transport.net.ib.control.RemoteQpInfo;

/**
 * One end's part in the move of a connection to other queue pairs, at the same NIC or another one.
 * Never waits; owned by the thread that has the connection's turn.
 *
 * <pre>
 *   sender                                     receiver
 *                                       &lt;--    ASK: my queue pairs are broken, or my port is down
 *   makes queue pairs at a port
 *   OFFER: these, and your port         --&gt;    makes queue pairs there
 *                                       &lt;--    ANSWER: these               (or REFUSE)
 *   sends nothing over each of them,
 *   and sees it arrive
 *   ends the old queue pairs
 *   SWITCH                              --&gt;    ends the old queue pairs
 *                                       &lt;--    POSITION: what is complete
 *   sends again what is not             &lt;==    announces again what is not
 * </pre>
 *
 * <p>An end whose time for this is over says GIVE_UP and closes the control connection.
 *
 * <p>Nothing can arrive over old queue pairs once both ends have ended theirs, so a message counts
 * once: either it was complete then, or it is sent again, into memory that is still the network's.
 */
abstract class QpFailover {
  static final Logger LOG = DebugLog.of("NET");
  private static final long TROUBLE_NANOS = 100_000_000;

  final IbConnection end;
  private final Duration bound;

  /** The queue pairs that are being made; null while there are none. */
  NicQueues fresh;

  /** The error of the old ones; null while the connection has queue pairs to use. */
  private NcclException cause;

  /** The error of those before, in case that the new ones move nothing either. */
  private NcclException before;

  /** The trouble that the other end has told of; empty if none. */
  private String otherReason = "";

  /** True if the other end knows that this one's port is down. */
  private boolean told;

  private long lookedAt;
  private long since;
  private long tookOverAt;

  QpFailover(IbConnection end, Duration bound) {
    this.end = end;
    this.bound = bound;
  }

  /** Takes the next step. */
  abstract void step(long now);

  /** Takes what the other end says. */
  abstract void take(FailoverMessage message, long now);

  /** The queue pairs in use have ended. */
  abstract void broken(NcclException why);

  /** True while another control connection is dialled, so that the end of this one is no error. */
  abstract boolean isDialling();

  /** True if it does nothing until the other end says something, or the queue pairs break. */
  boolean mayRest() {
    return !isBroken() && !isUnderWay() && !isDialling();
  }

  /** The queue pairs in use are broken by an error. */
  final void begin(NcclException why) {
    long now = System.nanoTime();
    boolean goesOn = before != null && !end.hasProgressed() && now - tookOverAt < bound.toNanos();
    cause = goesOn ? before : why;
    since = goesOn ? since : now;
    end.stop();
    broken(why);
  }

  /** The queue pairs in use have ended because others are better. */
  final void plan(NcclException why) {
    cause = why;
    since = System.nanoTime();
  }

  /** True while the connection has no queue pairs to use. */
  final boolean isBroken() {
    return cause != null;
  }

  /** True if queue pairs are being made. */
  final boolean isUnderWay() {
    return fresh != null;
  }

  /** The reason for the move. */
  final NcclException cause() {
    return cause;
  }

  /** Time since the connection broke. */
  final long nanos(long now) {
    return now - since;
  }

  /**
   * Ends a connection that has been broken for too long, and tells the other end, whose time may
   * have begun later.
   *
   * @throws NcclException if it has
   */
  final void checkTime(long now) {
    if (cause != null && now - since > bound.toNanos()) {
      String late = "no queue pair has taken over within " + Patience.text(bound);
      end.link().send(FailoverMessage.of(Kind.GIVE_UP, late));
      throw failure(late);
    }
  }

  /** The first error of a connection that has no queue pairs, with the reason to give it up. */
  final NcclException failure(String last) {
    String here = end.portTrouble();
    String there = otherReason.isEmpty() ? "" : end.remote().describe() + ": " + otherReason;
    return cause.within(
        Stream.of(cause.problem(), here, there, last)
            .filter(text -> !text.isEmpty())
            .collect(Collectors.joining("; ")));
  }

  /** The other end has said what is wrong there. */
  final void heard(FailoverMessage ask) {
    otherReason = ask.reason();
  }

  /** Tells the other end once that this one's port is down. */
  final void tellTrouble(int epoch, long now) {
    if (cause == null || told || now - lookedAt < TROUBLE_NANOS) {
      return;
    }
    lookedAt = now;
    String trouble = end.portTrouble();
    if (!trouble.isEmpty()) {
      told = true;
      say(Kind.ASK, epoch, 0, trouble, null);
    }
  }

  /** The new queue pairs are in use. */
  final void tookOver(long now) {
    end.use(fresh);
    fresh = null;
    before = cause;
    cause = null;
    otherReason = "";
    told = false;
    tookOverAt = now;
  }

  /** Gives up the queue pairs that are being made. */
  final void drop() {
    if (fresh != null) {
      end.release(fresh);
      fresh = null;
    }
  }

  final void say(Kind kind, int epoch, int nic, String reason, RemoteQpInfo own) {
    long active = end.ports.active(end.settings);
    end.link().send(new FailoverMessage(kind, epoch, nic, active, 0, 0, reason, own));
  }

  /** Gives up what is being made, for good. */
  void close() {
    drop();
  }
}
