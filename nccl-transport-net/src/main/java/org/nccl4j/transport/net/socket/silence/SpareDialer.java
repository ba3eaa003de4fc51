package org.nccl4j.transport.net.socket.silence;

import java.io.IOException;
import java.net.InetSocketAddress;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.function.Function;
import java.util.function.LongSupplier;
import java.util.function.Supplier;
import org.nccl4j.api.wire.DataChannel;
import org.nccl4j.api.wire.Dialer;
import org.nccl4j.api.wire.Handshake;
import org.nccl4j.api.wire.PendingHandshake;
import org.nccl4j.api.wire.Sockets;

/**
 * Dials a socket while the one whose place it takes is still in use: because that one is silent, or
 * to return from another address to the connection's own. The old socket is left only once the new
 * one is there, so a rank that is stopped for long, and answers nothing, keeps its sockets. Owned
 * by the thread that has the link's turn.
 */
public final class SpareDialer {
  /** Times of a silent socket before the first return, and before the last ones. */
  private static final int FIRST_RETURN = 1;

  private static final int LAST_RETURN = 64;

  private final List<InetSocketAddress> addresses;
  private final Function<List<InetSocketAddress>, Dialer> dialers;
  private final Supplier<Handshake> handshake;
  private final Function<PendingHandshake, DataChannel> channels;
  private final long silence;
  private final LongSupplier clock;
  private Dialer dialer;
  private DataChannel ready;

  /** True if what is dialled or ready leads to the connection's own address. */
  private boolean returns;

  /** The socket in use of which {@link #isAway} tells. */
  private DataChannel judged;

  private int pauses = FIRST_RETURN;
  private boolean isAway;
  private long nextReturn;

  /**
   * A dialer of one place of a connection.
   *
   * @param addresses of the other side
   * @param dialers makes a dialer of addresses
   * @param channels takes the bytes of a socket that is let in
   * @param silence time after which a socket is silent
   */
  public SpareDialer(
      List<InetSocketAddress> addresses,
      Function<List<InetSocketAddress>, Dialer> dialers,
      Supplier<Handshake> handshake,
      Function<PendingHandshake, DataChannel> channels,
      Duration silence,
      LongSupplier clock) {
    this.addresses = addresses;
    this.dialers = dialers;
    this.handshake = handshake;
    this.channels = channels;
    this.silence = silence.toNanos();
    this.clock = clock;
  }

  /** Takes the next step towards another address than that of the silent socket; true if there. */
  public boolean prepare(DataChannel silent) {
    if (returns) {
      close();
    }
    if (dialer == null && ready == null) {
      dialer = dialers.apply(from(silent));
    }
    return step();
  }

  /** True if a socket is known to lead to the connection's own address. */
  public boolean isHome(DataChannel current) {
    return current == judged && !isAway;
  }

  /** Takes the next step back to the connection's own address, if it is time; true if there. */
  public boolean prepareReturn(DataChannel current, InetSocketAddress home) {
    if (current != judged) {
      judge(current, home);
    }
    if (!isAway) {
      return false;
    }
    if (dialer == null && ready == null) {
      if (clock.getAsLong() - nextReturn < 0) {
        return false;
      }
      dialer = dialers.apply(List.of(home));
      returns = true;
    }
    return step();
  }

  /** Finds once for each socket where it leads: a look at it allocates. */
  private void judge(DataChannel current, InetSocketAddress home) {
    judged = current;
    boolean wasAway = isAway;
    isAway = !isAt(current, home);
    if (isAway && !wasAway) {
      nextReturn = clock.getAsLong() + pauses * silence;
      pauses = Math.min(2 * pauses, LAST_RETURN);
    }
  }

  private boolean step() {
    if (ready != null) {
      return true;
    }
    try {
      PendingHandshake proved = dialer.poll(handshake);
      if (proved == null) {
        return false;
      }
      ready = channels.apply(proved);
      dialer.take();
      dialer = null;
      return true;
    } catch (IOException e) {
      if (dialer.failed(e) && (returns || dialer.isHopeless())) {
        close();
        nextReturn = clock.getAsLong() + silence;
      }
      return false;
    }
  }

  /** All addresses, the silent socket's last. */
  private List<InetSocketAddress> from(DataChannel silent) {
    List<InetSocketAddress> all = new ArrayList<>(addresses);
    for (int a = 0; a < all.size(); a++) {
      if (isAt(silent, all.get(a))) {
        Collections.rotate(all, -(a + 1));
        break;
      }
    }
    return all;
  }

  private static boolean isAt(DataChannel socket, InetSocketAddress address) {
    try {
      return address.equals(socket.socket().getRemoteAddress());
    } catch (IOException e) {
      return false;
    }
  }

  /** Gives the socket that is ready away; null if none is. */
  public DataChannel take() {
    DataChannel taken = ready;
    ready = null;
    close();
    return taken;
  }

  /** Gives up a socket in place of a silent one, which is silent no more. */
  public void drop() {
    if (!returns) {
      close();
    }
  }

  /** Gives up what is dialled or ready. */
  public void close() {
    if (dialer != null) {
      dialer.close();
    }
    dialer = null;
    Sockets.close(ready);
    ready = null;
    returns = false;
  }
}
