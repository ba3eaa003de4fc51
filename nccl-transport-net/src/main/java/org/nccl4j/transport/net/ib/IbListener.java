package org.nccl4j.transport.net.ib;

import java.io.IOException;
import java.lang.System.Logger;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import org.nccl4j.api.spi.NetListener;
import org.nccl4j.api.spi.NetReceiver;
import org.nccl4j.api.wire.Sockets;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.InvalidUsageException;
import org.nccl4j.device.RemoteException;
import org.nccl4j.transport.net.failover.LinkWatch;
import org.nccl4j.transport.net.ib.control.ControlConnection;
import org.nccl4j.transport.net.ib.control.ControlPort;
import org.nccl4j.transport.net.ib.control.IbHandle;
import org.nccl4j.transport.net.ib.control.RemoteQpInfo;
import org.nccl4j.transport.net.ib.device.IbSettings;

/**
 * Waits for one sender over TCP, until it is closed at the creation's end or deadline. Owned by one
 * thread at a time.
 */
final class IbListener implements NetListener, OpenConnections.Part {
  private static final Logger LOG = DebugLog.of("NET");

  private final IbSettings settings;
  private final LocalPorts ports;
  private final LinkWatch watch;
  private final int rank;
  private final IbHandle handle;
  private final ControlPort port;
  private final OpenConnections opened;

  /** Connections that know the secret and have not sent their end's information. */
  private final List<ControlConnection> arrivals = new ArrayList<>();

  private ControlConnection accepted;
  private RemoteQpInfo sender;
  private IbReceiver receiver;
  private boolean done;
  private boolean closed;

  IbListener(
      IbSettings settings,
      LocalPorts ports,
      int rank,
      LinkWatch watch,
      IbHandle handle,
      ControlPort port,
      OpenConnections opened) {
    this.settings = settings;
    this.ports = ports;
    this.rank = rank;
    this.watch = watch;
    this.handle = handle;
    this.port = port;
    this.opened = opened;
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
      port.poll();
      hear();
    }
    if (accepted == null) {
      return null;
    }
    return finish();
  }

  /** Accepts the first that has told its end. */
  private void hear() {
    for (ControlConnection each = port.next(handle); each != null; each = port.next(handle)) {
      arrivals.add(each);
    }
    for (Iterator<ControlConnection> each = arrivals.iterator();
        each.hasNext() && accepted == null; ) {
      ControlConnection link = each.next();
      try {
        sender = link.receiveEnd();
        if (sender != null) {
          accepted = link;
          each.remove();
        }
      } catch (IOException e) {
        each.remove();
        link.close();
        LOG.log(
            Logger.Level.DEBUG,
            "InfiniBand: rank {0} loses a connection on port {1}: {2}",
            rank,
            Integer.toString(handle.port()),
            Sockets.reason(e));
      }
    }
  }

  /** Connects the queue pairs, and waits for the sender to have done the same. */
  private NetReceiver finish() {
    ControlConnection link = accepted;
    try {
      if (receiver == null) {
        receiver =
            new IbReceiver(
                settings,
                ports,
                sender.queuePairs().length,
                Math.max(sender.ports().size(), ports.home().ports().size()),
                sender.split(),
                rank,
                watch,
                () -> port.next(handle),
                this::forget);
        receiver.connectPairs(link, sender);
        link.sendEnd(receiver.describe());
      }
      if (!link.flush() || !link.receiveReady()) {
        return null;
      }
    } catch (IOException e) {
      throw new RemoteException(
          ErrorId.CONNECTION,
          "%s gave up its connection: %s".formatted(sender.describe(), Sockets.reason(e)),
          "see that rank's first error",
          e);
    }
    done = true;
    receiver.begin();
    IbReceiver connected = receiver;
    receiver = null;
    accepted = null;
    return opened.add(connected);
  }

  /** Returns the listener's state, for messages. */
  @Override
  public String toString() {
    return "listens for an InfiniBand sender on %s, port %d%s"
        .formatted(
            handle.addresses(),
            handle.port(),
            accepted != null ? "; %s has come".formatted(sender.describe()) : port.refusals());
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
    arrivals.forEach(ControlConnection::close);
    if (receiver != null) {
      receiver.close();
    }
    if (accepted != null) {
      accepted.close();
    }
    if (!done || settings.failover().isZero()) {
      forget(); // else its receiver may be dialled again
    }
  }

  private void forget() {
    port.forget(handle);
    watch.wake(); // a watch that rests would keep the port open
  }
}
