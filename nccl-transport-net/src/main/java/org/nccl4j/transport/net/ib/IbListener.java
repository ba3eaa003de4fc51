package org.nccl4j.transport.net.ib;

import java.io.IOException;
import java.lang.System.Logger;
import java.nio.channels.ByteChannel;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Iterator;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.transport.net.AddressTrials;

/**
 * Where one sender is awaited, by TCP, until this is closed at the creation's end or deadline.
 * Strangers cannot keep the sender out: where too many come, those that have proved nothing are
 * closed, the oldest first, and a sender among them comes again. Owned by one thread at a time.
 */
final class IbListener implements NetListener, Opened.Part {
  private static final Logger LOG = DebugLog.of("NET");
  private static final int MOST_ARRIVALS = 64;

  private final IbSettings settings;
  private final LocalEnd local;
  private final int rank;
  private final NetContext context;
  private final IbHandle handle;
  private final ServerSocketChannel server;
  private final Opened opened;
  private final Deque<Arrival> arrivals = new ArrayDeque<>();
  private Arrival accepted;
  private IbReceiver receiver;
  private long refused;
  private boolean done;
  private boolean closed;

  IbListener(
      NetContext context,
      IbSettings settings,
      LocalEnd local,
      IbHandle handle,
      ServerSocketChannel server,
      Opened opened) {
    this.settings = settings;
    this.local = local;
    this.handle = handle;
    this.server = server;
    this.opened = opened;
    rank = context.rank();
    this.context = context;
  }

  @Override
  public byte[] handle() {
    return handle.encode();
  }

  @Override
  public NetReceiver accept() {
    if (closed) {
      throw new InvalidUsageException(
          ErrorId.CLOSED,
          "an InfiniBand listener is used after close",
          "close listeners after accept");
    }
    if (done) {
      return null;
    }
    if (accepted == null) {
      takeNew();
      screen();
    }
    if (accepted == null) {
      return null;
    }
    return finish();
  }

  private void takeNew() {
    try {
      SocketChannel channel = server.accept();
      while (channel != null) {
        channel.configureBlocking(false);
        arrivals.add(arrival(channel));
        if (arrivals.size() > MOST_ARRIVALS) {
          refuse(leastKnown(), "too many connections that prove nothing");
        }
        channel = server.accept();
      }
    } catch (IOException e) {
      LOG.log(Logger.Level.WARNING, "InfiniBand: accepting a connection failed: {0}", e);
    }
  }

  /** Takes out the oldest of those that have proved nothing; if all have, the oldest. */
  private Arrival leastKnown() {
    for (Iterator<Arrival> each = arrivals.iterator(); each.hasNext(); ) {
      Arrival arrival = each.next();
      if (!arrival.hasProved()) {
        each.remove();
        return arrival;
      }
    }
    return arrivals.remove();
  }

  private Arrival arrival(SocketChannel channel) throws IOException {
    try {
      ByteChannel control = context.controlChannel(channel, /* dialed= */ false);
      return new Arrival(
          new ControlLink(control, context.secret(), handle.session(), /* sender= */ false));
    } catch (IOException e) {
      channel.close();
      throw e;
    }
  }

  private void screen() {
    for (Iterator<Arrival> each = arrivals.iterator(); each.hasNext() && accepted == null; ) {
      Arrival arrival = each.next();
      try {
        if (arrival.poll()) {
          accepted = arrival;
          each.remove();
        }
      } catch (IOException e) {
        each.remove();
        refuse(arrival, AddressTrials.reason(e));
      }
    }
  }

  private void refuse(Arrival arrival, String why) {
    arrival.link().close();
    if (refused++ == 0) {
      LOG.log(
          Logger.Level.WARNING,
          "InfiniBand: rank {0} refuses a connection on port {1}: {2}",
          rank,
          Integer.toString(handle.port()),
          why);
    }
  }

  /** Connects the queue pairs, and waits for the sender to have done the same. */
  private NetReceiver finish() {
    ControlLink link = accepted.link();
    try {
      if (receiver == null) {
        RemoteEnd sender = accepted.end();
        receiver = new IbReceiver(settings, local, sender.queuePairs().length, sender.split());
        receiver.connectPairs(link, sender);
        link.sendEnd(receiver.describe(rank));
      }
      if (!link.flush() || !link.receiveReady()) {
        return null;
      }
    } catch (IOException e) {
      throw new RemoteException(
          ErrorId.CONNECTION,
          "%s gave up its connection: %s"
              .formatted(accepted.end().describe(), AddressTrials.reason(e)),
          "see that rank's first error",
          e);
    }
    done = true;
    IbReceiver connected = receiver;
    receiver = null;
    accepted = null;
    return opened.add(connected);
  }

  /** Where it is, for messages. */
  @Override
  public String toString() {
    return "listens for an InfiniBand sender on %s, port %d%s"
        .formatted(
            handle.addresses(),
            handle.port(),
            accepted != null
                ? "; %s has come".formatted(accepted.end().describe())
                : refused == 0 ? "" : "; %d connections were refused meanwhile".formatted(refused));
  }

  @Override
  public boolean isClosed() {
    return closed;
  }

  @Override
  public void close() {
    if (closed) {
      return;
    }
    closed = true;
    arrivals.forEach(arrival -> arrival.link().close());
    if (receiver != null) {
      receiver.close();
    }
    if (accepted != null) {
      accepted.link().close();
    }
    try {
      server.close();
    } catch (IOException e) {
      LOG.log(Logger.Level.DEBUG, "InfiniBand: closing a listener failed", e);
    }
  }
}
