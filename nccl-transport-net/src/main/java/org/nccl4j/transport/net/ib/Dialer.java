package org.nccl4j.transport.net.ib;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.net.StandardSocketOptions;
import java.nio.channels.SocketChannel;
import java.util.List;
import org.nccl4j.api.spi.NetContext;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.RemoteException;

/**
 * The sender's way to a listener: tries its addresses one after the other until one of them leads
 * to somebody who knows the secret. Never blocks. Owned by one thread at a time.
 */
final class Dialer implements AutoCloseable {
  private static final long PATIENCE_NANOS = 5_000_000_000L;

  private enum Stage {
    DIALLING,
    GREETING,
    AWAITING_END,
    DONE
  }

  private final List<InetSocketAddress> addresses;
  private final NetContext context;
  private final long session;
  private final StringBuilder failures = new StringBuilder();
  private RemoteEnd own;
  private int next;
  private SocketChannel channel;
  private ControlLink link;
  private Stage stage = Stage.DIALLING;
  private long since;
  private RemoteEnd remote;

  Dialer(IbHandle handle, NetContext context) {
    addresses = handle.socketAddresses();
    session = handle.session();
    this.context = context;
  }

  /** What the listener will be told. */
  void introduce(RemoteEnd end) {
    own = end;
  }

  /**
   * Takes the next step and says whether the listener has told its end.
   *
   * @throws RemoteException if no address leads to it
   */
  boolean step() {
    while (stage != Stage.DONE) {
      try {
        if (!advance()) {
          if (System.nanoTime() - since < PATIENCE_NANOS) {
            return false;
          }
          throw new IOException("no answer within %d s".formatted(PATIENCE_NANOS / 1_000_000_000));
        }
      } catch (IOException e) {
        giveUp(e);
      }
    }
    return true;
  }

  /** Whether something happened. */
  private boolean advance() throws IOException {
    switch (stage) {
      case DIALLING:
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
      case GREETING:
        if (!link.flush() || !link.receiveNonce()) {
          return false;
        }
        link.sendEnd(own);
        stage = Stage.AWAITING_END;
        return true;
      default:
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
  }

  private void begin() throws IOException {
    since = System.nanoTime();
    channel = SocketChannel.open();
    channel.configureBlocking(false);
    channel.setOption(StandardSocketOptions.TCP_NODELAY, true);
    channel.setOption(StandardSocketOptions.SO_KEEPALIVE, true);
    channel.connect(addresses.get(next));
  }

  private void giveUp(IOException why) {
    failures.append(failures.isEmpty() ? "" : "; ").append(addresses.get(next)).append(": ");
    failures.append(why.getMessage());
    close();
    stage = Stage.DIALLING;
    if (++next == addresses.size()) {
      throw new RemoteException(
          ErrorId.CONNECTION,
          "InfiniBand: the receiving rank's control connection cannot be reached: " + failures,
          "see that the ranks reach each other by TCP (firewalls, NCCL_SOCKET_IFNAME), and that"
              + " the other rank is alive");
    }
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
          "%s closed its control connection: %s".formatted(remote.describe(), e.getMessage()),
          "see that rank's first error",
          e);
    }
  }

  @Override
  public void close() {
    try {
      if (channel != null) {
        channel.close();
      }
    } catch (IOException e) {
      failures.append(" (").append(e.getMessage()).append(')');
    }
    channel = null;
  }
}
