package org.nccl4j.transport.net.ib;

import java.io.IOException;
import java.lang.System.Logger;
import java.time.Duration;
import java.util.function.Supplier;
import org.nccl4j.device.NcclException;
import org.nccl4j.transport.net.ib.control.ControlConnection;
import org.nccl4j.transport.net.ib.control.FailoverMessage;
import org.nccl4j.transport.net.ib.control.FailoverMessage.Kind;

/** The receiver's part in a move: asks for it, makes queue pairs where the sender wants them. */
final class ReceiverFailover extends QpFailover {
  private final IbReceiver receiver;
  private final Supplier<ControlConnection> redialled;
  private ControlConnection arrived;
  private int epoch;

  ReceiverFailover(IbReceiver receiver, Duration bound, Supplier<ControlConnection> redialled) {
    super(receiver, bound);
    this.receiver = receiver;
    this.redialled = redialled;
  }

  @Override
  void broken(NcclException why) {
    say(Kind.ASK, epoch, 0, "%s (%s)".formatted(why.problem(), why.remedy()), null);
  }

  @Override
  void step(long now) {
    checkTime(now);
    tellTrouble(epoch, now);
    takeRedialled();
  }

  @Override
  boolean isDialling() {
    return arrived != null;
  }

  /** Goes on over another control connection, whose sender begins its move anew. */
  private void takeRedialled() {
    ControlConnection next = redialled.get();
    if (next != null) {
      close(arrived);
      arrived = next;
    }
    if (arrived == null) {
      return;
    }
    try {
      if (arrived.receiveEnd() != null) {
        arrived.sendEnd(end.describe());
        drop();
        end.talkOver(arrived);
        arrived = null;
        if (isBroken()) {
          broken(cause());
        }
      }
    } catch (IOException e) {
      close(arrived);
      arrived = null;
    }
  }

  private static void close(ControlConnection connection) {
    if (connection != null) {
      connection.close();
    }
  }

  @Override
  void close() {
    super.close();
    close(arrived);
  }

  @Override
  void take(FailoverMessage message, long now) {
    switch (message.kind()) {
      case ASK -> heard(message);
      case PING -> end.link().send(FailoverMessage.of(Kind.PONG));
      case OFFER -> answer(message);
      case SWITCH -> {
        if (fresh != null && message.epoch() == epoch) {
          change(message, now);
        }
      }
      default -> LOG.log(Logger.Level.DEBUG, "InfiniBand: a sender says {0}", message.kind());
    }
  }

  private void answer(FailoverMessage offer) {
    drop();
    epoch = offer.epoch();
    int nic = offer.nic();
    if (nic >= end.ports.count() || !end.ports.isActive(end.settings, nic)) {
      say(Kind.REFUSE, epoch, nic, "the port is not up", null);
      return;
    }
    try {
      fresh = end.open(nic);
      fresh.connect(end.settings, offer.end());
      say(Kind.ANSWER, epoch, nic, "", end.describe(fresh, nic));
    } catch (NcclException e) {
      drop();
      say(Kind.REFUSE, epoch, nic, e.problem(), null);
    }
  }

  private void change(FailoverMessage message, long now) {
    try {
      end.adopt(fresh);
    } catch (NcclException e) {
      drop();
      say(Kind.REFUSE, epoch, message.nic(), e.problem(), null);
      return;
    }
    LOG.log(Logger.Level.DEBUG, "InfiniBand: {0} takes over: {1}", fresh.path(), message.reason());
    end.link()
        .send(
            new FailoverMessage(
                Kind.POSITION,
                epoch,
                message.nic(),
                end.ports.active(end.settings),
                receiver.next(),
                receiver.waiting(),
                "",
                null));
    tookOver(now);
    receiver.resume();
  }
}
