package org.nccl4j.transport.net.ib;

import java.io.IOException;
import java.lang.System.Logger;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.SocketChannel;
import java.util.function.LongSupplier;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;
import org.nccl4j.transport.net.AddressTrials;

/**
 * The sender's way to a listener: tries its addresses again and again until one of them leads to
 * somebody who proves that it knows the secret, and only then tells this end. It goes on until it
 * is closed, unless every address says no for good. Never blocks. Owned by one thread at a time.
 */
final class Dialer implements AutoCloseable {
  private static final Logger LOG = DebugLog.of("NET");

  private enum Stage {
    DIALLING,
    GREETING,
    PROVING,
    AWAITING_END,
    DONE
  }

  private final AddressTrials trials;
  private final NetContext context;
  private final LongSupplier clock;
  private final long session;
  private RemoteEnd own;
  private SocketChannel channel;
  private ControlLink link;
  private Stage stage = Stage.DIALLING;
  private RemoteEnd remote;

  Dialer(IbHandle handle, NetContext context) {
    this(handle, context, System::nanoTime);
  }

  /** As above, with a clock in nanoseconds. */
  Dialer(IbHandle handle, NetContext context, LongSupplier clock) {
    trials = new AddressTrials(handle.socketAddresses());
    session = handle.session();
    this.context = context;
    this.clock = clock;
  }

  /** What the listener will be told. */
  void introduce(RemoteEnd end) {
    own = end;
  }

  /**
   * Takes the next steps and says whether the listener has told its end.
   *
   * @throws RemoteException if no address leads to it, nor ever will
   */
  boolean step() {
    while (stage != Stage.DONE) {
      if (channel == null && !trials.mayBegin(clock.getAsLong())) {
        return false;
      }
      try {
        // First the answer, then the clock: this thread may not have looked for long.
        if (advance()) {
          trials.progressed(clock.getAsLong());
        } else if (mayBeLate() && trials.isLate(clock.getAsLong())) {
          throw trials.late();
        } else {
          return false;
        }
      } catch (IOException e) {
        reject(e);
      }
    }
    return true;
  }

  /** The listener lets in one sender: once that may be this one, another would find no place. */
  private boolean mayBeLate() {
    return stage == Stage.DIALLING || stage == Stage.GREETING;
  }

  /** Whether something happened. */
  private boolean advance() throws IOException {
    return switch (stage) {
      case DIALLING -> isConnected();
      case GREETING -> isGreeted();
      case PROVING -> isProved();
      default -> isTold();
    };
  }

  private boolean isConnected() throws IOException {
    if (channel == null) {
      begin();
    }
    if (!channel.finishConnect()) {
      return false;
    }
    link =
        new ControlLink(
            context.controlChannel(channel, /* dialed= */ true),
            context.secret(),
            session,
            /* sender= */ true);
    link.sendNonce();
    stage = Stage.GREETING;
    return true;
  }

  private boolean isGreeted() throws IOException {
    if (!link.flush() || !link.receiveNonce()) {
      return false;
    }
    link.sendProof();
    stage = Stage.PROVING;
    return true;
  }

  private boolean isProved() throws IOException {
    if (!link.flush() || !link.receiveProof()) {
      return false;
    }
    link.sendEnd(own);
    stage = Stage.AWAITING_END;
    return true;
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

  private void begin() throws IOException {
    trials.begin(clock.getAsLong());
    channel = SocketChannel.open();
    channel.configureBlocking(false);
    channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
    channel.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
    AddressTrials.connect(channel, trials.current());
  }

  /** Tries once more, or the next address. */
  private void reject(IOException failure) {
    InetSocketAddress tried = trials.current();
    String reason = AddressTrials.reason(failure);
    close();
    stage = Stage.DIALLING;
    if (!trials.failed(failure, reason, clock.getAsLong())) {
      return;
    }
    if (trials.areHopeless()) {
      throw new RemoteException(
          ErrorId.CONNECTION,
          "InfiniBand: the receiving rank's control connection cannot be reached: "
              + trials.failures(),
          "see that the ranks reach each other by TCP (firewalls, NCCL_SOCKET_IFNAME), and that"
              + " the other rank is alive");
    }
    LOG.log(
        Logger.Level.DEBUG,
        "InfiniBand: {0} cannot be reached ({1}); trying {2}",
        AddressTrials.text(tried),
        reason,
        trials.index() == 0 ? "again until the deadline" : AddressTrials.text(trials.current()));
  }

  ControlLink link() {
    return link;
  }

  RemoteEnd remote() {
    return remote;
  }

  /** Begins to tell the listener that this end is ready. */
  void sayReady() {
    link.sendReady();
  }

  /** Whether the listener has been told that this end is ready. */
  boolean isReadySaid() {
    try {
      return link.flush();
    } catch (IOException e) {
      throw new RemoteException(
          ErrorId.CONNECTION,
          "%s closed its control connection: %s"
              .formatted(remote.describe(), AddressTrials.reason(e)),
          "see that rank's first error",
          e);
    }
  }

  /** Where it is, for messages. */
  @Override
  public String toString() {
    String failures = trials.failures();
    return "connecting the control connection of InfiniBand to %s%s"
        .formatted(
            AddressTrials.text(trials.current()),
            failures.isEmpty()
                ? ""
                : ", after %s; look whether a firewall keeps TCP from these ports"
                    .formatted(failures));
  }

  @Override
  public void close() {
    try {
      if (channel != null) {
        channel.close();
      }
    } catch (IOException e) {
      LOG.log(Logger.Level.DEBUG, "InfiniBand: closing a control connection failed", e);
    }
    channel = null;
  }
}
