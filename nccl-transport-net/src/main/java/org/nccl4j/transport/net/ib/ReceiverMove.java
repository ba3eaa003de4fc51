package org.nccl4j.transport.net.ib;

import java.lang.System.Logger;
import java.time.Duration;
import org.nccl4j.device.NcclException;
import org.nccl4j.transport.net.ib.MoveMessage.Kind;

/** The receiver's part in a move: asks for it, makes queue pairs where the sender wants them. */
final class ReceiverMove extends Move {
  private final IbReceiver receiver;
  private int epoch;

  ReceiverMove(IbReceiver receiver, Duration bound) {
    super(receiver, bound);
    this.receiver = receiver;
  }

  @Override
  void broken(NcclException why) {
    say(Kind.ASK, epoch, 0, why.problem(), null);
  }

  @Override
  void step(long now) {
    checkTime(now);
  }

  @Override
  void take(MoveMessage message, long now) {
    switch (message.kind()) {
      case OFFER -> answer(message);
      case SWITCH -> {
        if (fresh != null && message.epoch() == epoch) {
          change(message, now);
        }
      }
      default -> LOG.log(Logger.Level.DEBUG, "InfiniBand: a sender says {0}", message.kind());
    }
  }

  private void answer(MoveMessage offer) {
    drop();
    epoch = offer.epoch();
    int port = offer.port();
    if (port >= end.ports.count() || !end.ports.isActive(end.settings, port)) {
      say(Kind.REFUSE, epoch, port, "the port is not up", null);
      return;
    }
    try {
      fresh = end.open(port);
      fresh.connect(offer.end());
      say(Kind.ANSWER, epoch, port, "", end.describe(fresh, port));
    } catch (NcclException e) {
      drop();
      say(Kind.REFUSE, epoch, port, e.problem(), null);
    }
  }

  private void change(MoveMessage message, long now) {
    try {
      end.adopt(fresh);
    } catch (NcclException e) {
      drop();
      say(Kind.REFUSE, epoch, message.port(), e.problem(), null);
      return;
    }
    LOG.log(Logger.Level.DEBUG, "InfiniBand: {0} takes over: {1}", fresh.path(), message.reason());
    end.link()
        .send(
            new MoveMessage(
                Kind.POSITION,
                epoch,
                message.port(),
                end.ports.active(end.settings),
                receiver.next(),
                receiver.waiting(),
                "",
                null));
    tookOver(now);
    receiver.resume();
  }
}
