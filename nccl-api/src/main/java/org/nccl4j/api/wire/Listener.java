package org.nccl4j.api.wire;

import java.io.IOException;
import java.lang.System.Logger;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.function.LongSupplier;
import org.nccl4j.device.DebugLog;

/**
 * A listening socket that passes on only sockets which have proved knowledge of the secret in time.
 * All others are closed, counted, and logged once; they use a bounded number of descriptors besides
 * those of awaited sockets. Never waits; owned by the thread that polls it.
 */
public final class Listener {
  /** Time that the other side may take for each step. */
  public static final Duration PATIENCE = Duration.ofSeconds(5);

  private static final Logger LOG = DebugLog.of("NET");
  static final String UNAWAITED = "it requests a connection that no listener awaits";

  private static final int ACCEPTS_AT_ONCE = 64;
  private static final long MOST_PAUSE_NANOS = 1_000_000;

  /** Awaits the sockets that have proved themselves. */
  public interface Acceptor {
    /** This side of a connection that has come. */
    Handshake handshake();

    /** Returns the channels that read and write a connection that has come. */
    PendingHandshake.Channels channels();

    /** Sockets that are awaited: for each of them there is room beside the strangers. */
    int awaited();

    /**
     * True if this listener awaits a request. Any other caller is closed before it receives this
     * side's proof: a caller whose address leads to several hosts then tries its next address.
     */
    default boolean awaits(ByteBuffer request) {
      return true;
    }

    /**
     * True if a request names what this side has closed. Its caller may have taken the end for a
     * failure, and is refused without a warning.
     */
    default boolean isOver(ByteBuffer request) {
      return false;
    }

    /** Takes an authenticated socket; false if it is not awaited. */
    boolean admit(PendingHandshake proved);
  }

  /** A connection that has not proved itself. */
  private static final class Guest {
    private final PendingHandshake pending;
    private final String from;
    private int steps;
    private long lateFrom;

    Guest(PendingHandshake pending, String from, long now) {
      this.pending = pending;
      this.from = from;
      lateFrom = now + PATIENCE.toNanos();
    }

    /** True if it has said something since it was asked last; then it has time for the next. */
    boolean progresses(long now) {
      if (pending.steps() == steps) {
        return false;
      }
      steps = pending.steps();
      lateFrom = now + PATIENCE.toNanos();
      return true;
    }
  }

  private final ServerSocketChannel channel;
  private final Acceptor acceptor;
  private final int mostStrangers;
  private final LongSupplier clock;
  private final ArrayDeque<Guest> guests = new ArrayDeque<>();
  private long refused;

  /** The caller that was refused last, and the reason. */
  private String lastRefusal;

  /** Time at which the last look at the guests ended; the next field is its duration. */
  private long lookedEnd;

  private long lookedNanos;

  /**
   * Begins to accept at the first {@link #poll}.
   *
   * @param channel in non-blocking mode; closed with this object
   * @param mostStrangers how many connections may be open that are not awaited
   * @param clock in nanoseconds
   */
  public Listener(
      ServerSocketChannel channel, Acceptor acceptor, int mostStrangers, LongSupplier clock) {
    this.channel = channel;
    this.acceptor = acceptor;
    this.mostStrangers = mostStrangers;
    this.clock = clock;
    this.lookedEnd = clock.getAsLong();
  }

  public boolean isOpen() {
    return channel.isOpen();
  }

  public int port() {
    return ListeningSocket.port(channel);
  }

  /**
   * Accepts sockets, and continues the handshakes. Everybody who awaits a socket asks for that at
   * each turn; where there are many guests it is done half of the time at most.
   */
  public void poll() {
    long now = clock.getAsLong();
    if (now - lookedEnd < lookedNanos) {
      return;
    }
    acceptSome();
    for (Iterator<Guest> each = guests.iterator(); each.hasNext(); ) {
      Guest guest = each.next();
      try {
        if (guest.pending.poll()) {
          each.remove();
          if (!acceptor.admit(guest.pending)) {
            refuse(guest, UNAWAITED);
          }
        } else if (!guest.progresses(now) && now - guest.lateFrom > 0) {
          each.remove();
          refuse(guest, "it did not authenticate in time");
        }
      } catch (IOException e) {
        each.remove();
        if (isOver(guest)) {
          guest.pending.close();
        } else {
          refuse(guest, Sockets.reason(e));
        }
      }
    }
    lookedEnd = clock.getAsLong();
    // A look that took long because its thread stood still must not keep the queue of the port
    // full.
    lookedNanos = Math.min(lookedEnd - now, MOST_PAUSE_NANOS);
  }

  private boolean isOver(Guest guest) {
    Handshake handshake = guest.pending.handshake();
    return handshake.done() && acceptor.isOver(handshake.request());
  }

  private void acceptSome() {
    try {
      for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
        SocketChannel accepted = channel.accept();
        if (accepted == null) {
          return;
        }
        welcome(accepted);
      }
    } catch (IOException e) {
      // Probably out of descriptors: close the unauthenticated sockets, so that the next poll has
      // room.
      while (channel.isOpen() && !guests.isEmpty()) {
        refuse(guests.poll(), Sockets.reason(e));
      }
    }
  }

  private void welcome(SocketChannel accepted) {
    if (guests.size() >= mostStrangers + acceptor.awaited()) {
      refuse(leastKnown(), "too many connections that have not authenticated");
    }
    try {
      accepted.configureBlocking(false);
      PendingHandshake pending =
          new PendingHandshake(
              accepted, acceptor.channels(), acceptor.handshake(), acceptor::awaits);
      String from = Sockets.text((InetSocketAddress) accepted.getRemoteAddress());
      guests.add(new Guest(pending, from, clock.getAsLong()));
    } catch (IOException e) {
      Sockets.close(accepted);
    }
  }

  /** Takes out the oldest of those that have said nothing; if all have, the oldest. */
  private Guest leastKnown() {
    for (Iterator<Guest> each = guests.iterator(); each.hasNext(); ) {
      Guest guest = each.next();
      if (guest.pending.steps() == 0) {
        each.remove();
        return guest;
      }
    }
    return guests.poll();
  }

  /** Returns the number of sockets that have come and are not authenticated. */
  public int guests() {
    return guests.size();
  }

  private void refuse(Guest guest, String why) {
    guest.pending.close();
    lastRefusal = guest.from + ": " + why;
    if (refused++ == 0) {
      LOG.log(
          Logger.Level.WARNING,
          "refused a connection to network port {0} from {1}: {2}; further ones are only counted",
          Integer.toString(port()),
          guest.from,
          why);
    }
  }

  /** Returns the refused connections, for messages; empty if there are none. */
  public String refusals() {
    return switch ((int) Math.min(2, refused)) {
      case 0 -> "";
      case 1 -> "; 1 connection was refused meanwhile, from " + lastRefusal;
      default ->
          "; %d connections were refused meanwhile, the last from %s"
              .formatted(refused, lastRefusal);
    };
  }

  /** Closes the socket and whatever has not proved itself. */
  public void close() {
    Sockets.close(channel);
    guests.forEach(guest -> guest.pending.close());
    guests.clear();
  }
}
