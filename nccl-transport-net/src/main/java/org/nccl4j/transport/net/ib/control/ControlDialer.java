package org.nccl4j.transport.net.ib.control;

import java.io.IOException;
import java.lang.System.Logger;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.function.LongSupplier;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.api.wire.Dialer;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.PendingHandshake;
import org.nccl4j.api.wire.Sockets;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;

/**
 * The sender's way to a listener: tries its addresses again and again until one of them leads to a
 * peer that proves that it knows the secret, and only then tells this end. It goes on until it is
 * closed, unless every address says no for good. Never blocks. Owned by one thread at a time.
 */
public final class ControlDialer implements AutoCloseable {
  private static final Logger LOG = DebugLog.of("NET");

  private enum Stage {
    CONNECTING,
    AWAITING_END,
    DONE
  }

  private final Dialer dialer;
  private final byte[] secret;
  private final byte[] session;
  private RemoteQpInfo own;
  private ControlConnection link;
  private Stage stage = Stage.CONNECTING;
  private RemoteQpInfo remote;

  /** Begins with the handle's address at a place. */
  public ControlDialer(IbHandle handle, int place, NetContext context) {
    this(handle, place, context, System::nanoTime);
  }

  /** Creates a dialer as the other constructor does, with a clock in nanoseconds. */
  public ControlDialer(IbHandle handle, int place, NetContext context, LongSupplier clock) {
    this(handle, context, new Dialer(handle.socketAddresses(place), channels(context), clock));
  }

  private ControlDialer(IbHandle handle, NetContext context, Dialer dialer) {
    this.dialer = dialer;
    session = handle.sessionBytes();
    secret = context.secret();
  }

  /**
   * Creates a dialer of a connection in place of another, which may have gone over a port that is
   * down: of several addresses, all but one may be dead.
   *
   * @param place of the address with which it begins
   * @param bound the time in which a connection is to be found
   * @param clock in nanoseconds
   */
  public static ControlDialer replacing(
      IbHandle handle, int place, NetContext context, Duration bound, LongSupplier clock) {
    return new ControlDialer(
        handle,
        context,
        Dialer.within(bound, handle.socketAddresses(place), channels(context), clock));
  }

  private static PendingHandshake.Channels channels(NetContext context) {
    return socket -> context.controlChannel(socket, /* dialed= */ true);
  }

  /** Sets the queue pair information that the listener receives. */
  public void introduce(RemoteQpInfo end) {
    own = end;
  }

  /**
   * Takes the next steps and says whether the listener has told its end.
   *
   * @throws RemoteException if no address leads to it, nor ever will
   */
  public boolean step() {
    while (stage != Stage.DONE) {
      try {
        if (!advance()) {
          return false;
        }
      } catch (IOException e) {
        reject(e);
      }
    }
    return true;
  }

  /** True if something happened. */
  private boolean advance() throws IOException {
    return stage == Stage.CONNECTING ? isConnected() : isTold();
  }

  private boolean isConnected() throws IOException {
    PendingHandshake proved = dialer.poll(this::handshake);
    if (proved == null) {
      return false;
    }
    link = new ControlConnection(proved);
    link.sendEnd(own);
    stage = Stage.AWAITING_END;
    return true;
  }

  private Handshake handshake() {
    return Handshake.client(secret, Handshake.Service.INFINIBAND, session);
  }

  private boolean isTold() throws IOException {
    if (!link.flush()) {
      return false;
    }
    remote = link.receiveEnd();
    if (remote == null) {
      return false;
    }
    stage = Stage.DONE;
    return true;
  }

  /** Tries once more, or the next address. */
  private void reject(IOException failure) {
    InetSocketAddress tried = dialer.current();
    stage = Stage.CONNECTING;
    if (!dialer.failed(failure)) {
      return;
    }
    if (dialer.isHopeless()) {
      throw new RemoteException(
          ErrorId.CONNECTION,
          "InfiniBand: the receiving rank's control connection cannot be reached: "
              + dialer.failures(),
          "see that the ranks reach each other by TCP (firewalls, NCCL_SOCKET_IFNAME), and that"
              + " the other rank is alive");
    }
    LOG.log(
        Logger.Level.DEBUG,
        "InfiniBand: {0} cannot be reached ({1}); trying {2}",
        Sockets.text(tried),
        Sockets.reason(failure),
        dialer.next());
  }

  public ControlConnection link() {
    return link;
  }

  public RemoteQpInfo remote() {
    return remote;
  }

  /** Begins to tell the listener that this end is ready. */
  public void sayReady() {
    link.sendReady();
  }

  /** True if the listener has been told that this end is ready. */
  public boolean isReadySaid() {
    try {
      return link.flush();
    } catch (IOException e) {
      throw new RemoteException(
          ErrorId.CONNECTION,
          "%s closed its control connection: %s".formatted(remote.describe(), Sockets.reason(e)),
          "see that rank's first error",
          e);
    }
  }

  /** Returns the dialer's state, for messages. */
  @Override
  public String toString() {
    return "connecting the control connection of InfiniBand to " + dialer;
  }

  @Override
  public void close() {
    dialer.close();
  }
}
