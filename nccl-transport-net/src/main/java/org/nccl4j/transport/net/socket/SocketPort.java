package org.nccl4j.transport.net.socket;

import java.io.IOException;
import java.lang.System.Logger;
import java.net.InetAddress;
import java.net.SocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.ServerSocketChannel;
import java.nio.channels.SocketChannel;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.function.LongSupplier;
import org.nccl4j.api.wire.ListeningSocket;
import org.nccl4j.device.DebugLog;
import org.nccl4j.device.ErrorId;
import org.nccl4j.device.SystemErrorException;
import org.nccl4j.transport.net.AddressTrials;

/**
 * The listening socket of one communicator's network. It hands on only sockets that have proved
 * that they know the secret, in time; what else comes is closed, counted, and logged once, and
 * costs at most {@value #MOST_STRANGERS} descriptors beside those that are awaited. Open while a
 * listener awaits something. Owned by the thread that polls its listeners.
 */
final class SocketPort {
  static final Duration PATIENCE = Duration.ofSeconds(5);

  private static final Logger LOG = DebugLog.of("NET");
  private static final int MOST_STRANGERS = 256;
  private static final int ACCEPTS_AT_ONCE = 64;

  private final ServerSocketChannel channel;
  private final byte[] secret;
  private final int mostStrangers;
  private final LongSupplier clock;
  private final Map<ByteBuffer, SocketListener> listeners = new HashMap<>();
  private final ArrayDeque<Guest> guests = new ArrayDeque<>();
  private long refused;

  /** When the last look at the guests ended, and how long it took. */
  private long lookedEnd;

  private long lookedNanos;

  /** Who has come and not proved itself. */
  private static final class Guest {
    private final Acquaintance who;
    private final SocketAddress from;
    private int steps;
    private long lateFrom;

    Guest(Acquaintance who, SocketAddress from, long now) {
      this.who = who;
      this.from = from;
      lateFrom = now + PATIENCE.toNanos();
    }

    /** Whether it has said something since it was asked last; then it has time for the next. */
    boolean progresses(long now) {
      if (who.steps() == steps) {
        return false;
      }
      steps = who.steps();
      lateFrom = now + PATIENCE.toNanos();
      return true;
    }
  }

  private static final long MOST_PAUSE_NANOS = 1_000_000;

  private SocketPort(
      ServerSocketChannel channel, byte[] secret, int mostStrangers, LongSupplier clock) {
    this.channel = channel;
    this.secret = secret;
    this.mostStrangers = mostStrangers;
    this.clock = clock;
    this.lookedEnd = clock.getAsLong();
  }

  /** Listens on the first free port, on the interface if there is only one. */
  static SocketPort open(byte[] secret, SocketSettings settings, List<Nic> nics) {
    return open(secret, settings, nics, MOST_STRANGERS, System::nanoTime);
  }

  /** As above, with another number of strangers and clock. */
  static SocketPort open(
      byte[] secret,
      SocketSettings settings,
      List<Nic> nics,
      int mostStrangers,
      LongSupplier clock) {
    InetAddress host = nics.size() == 1 ? nics.get(0).address() : null;
    ServerSocketChannel channel = ListeningSocket.open("the network", host, settings.ports());
    try {
      channel.configureBlocking(false);
    } catch (IOException e) {
      Closing.close(channel);
      throw new SystemErrorException(
          ErrorId.PORT,
          "a listening socket of the network broke: " + e.getMessage(),
          "try again",
          e);
    }
    return new SocketPort(channel, secret, mostStrangers, clock);
  }

  boolean isOpen() {
    return channel.isOpen();
  }

  int number() {
    return channel.socket().getLocalPort();
  }

  /** Has sockets that name a token handed to a listener. */
  void add(byte[] token, SocketListener listener) {
    listeners.put(ByteBuffer.wrap(token), listener);
  }

  /** Forgets a listener, and closes with the last. */
  void remove(byte[] token) {
    listeners.remove(ByteBuffer.wrap(token));
    if (listeners.isEmpty()) {
      close();
    }
  }

  /**
   * Lets in who comes, and goes on with the greetings. Every listener asks for that at each of its
   * turns; where there are many guests it is done half of the time at most.
   */
  void poll() {
    long now = clock.getAsLong();
    if (now - lookedEnd < lookedNanos) {
      return;
    }
    acceptSome();
    for (Iterator<Guest> each = guests.iterator(); each.hasNext(); ) {
      Guest guest = each.next();
      try {
        if (guest.who.poll()) {
          each.remove();
          introduce(guest);
        } else if (!guest.progresses(now) && now - guest.lateFrom > 0) {
          each.remove();
          refuse(guest, "it did not prove itself in time");
        }
      } catch (IOException e) {
        each.remove();
        refuse(guest, AddressTrials.reason(e));
      }
    }
    lookedEnd = clock.getAsLong();
    // A look that took long because its thread stood still must not keep the queue of the port
    // full.
    lookedNanos = Math.min(lookedEnd - now, MOST_PAUSE_NANOS);
  }

  private void acceptSome() {
    try {
      for (int i = 0; i < ACCEPTS_AT_ONCE; i++) {
        SocketChannel accepted = channel.accept();
        if (accepted == null) {
          return;
        }
        admit(accepted);
      }
    } catch (IOException e) {
      // Out of descriptors, most likely: those that prove nothing make room for the next poll.
      while (channel.isOpen() && !guests.isEmpty()) {
        refuse(guests.poll(), e.getMessage());
      }
    }
  }

  private void admit(SocketChannel accepted) {
    if (guests.size() >= mostStrangers + awaited()) {
      refuse(leastKnown(), "too many connections that do not prove themselves");
    }
    try {
      accepted.configureBlocking(false);
      Acquaintance who = new Acquaintance(accepted, Greeting.server(secret));
      guests.add(new Guest(who, accepted.getRemoteAddress(), clock.getAsLong()));
    } catch (IOException e) {
      Closing.close(accepted);
    }
  }

  /** Sockets that listeners await: for each of them there is room beside the strangers. */
  private int awaited() {
    return listeners.values().stream().mapToInt(SocketListener::missing).sum();
  }

  /** Takes out the oldest of those that have said nothing; if all have, the oldest. */
  private Guest leastKnown() {
    for (Iterator<Guest> each = guests.iterator(); each.hasNext(); ) {
      Guest guest = each.next();
      if (guest.who.steps() == 0) {
        each.remove();
        return guest;
      }
    }
    return guests.poll();
  }

  /** How many sockets have come and not proved themselves. */
  int guests() {
    return guests.size();
  }

  private void introduce(Guest guest) {
    Greeting greeting = guest.who.greeting();
    SocketListener listener = listeners.get(ByteBuffer.wrap(greeting.token()));
    if (listener == null
        || !listener.admit(guest.who.channel(), greeting.index(), greeting.sockets())) {
      refuse(guest, "it asks for a connection that nobody awaits");
    }
  }

  private void refuse(Guest guest, String why) {
    guest.who.close();
    if (refused++ == 0) {
      LOG.log(
          Logger.Level.WARNING,
          "refused a connection to network port {0} from {1}: {2}; further ones are only counted",
          Integer.toString(number()),
          guest.from,
          why);
    }
  }

  /** What was turned away, for messages; empty if nothing was. */
  String refusals() {
    return refused == 0 ? "" : "; %d connections were refused meanwhile".formatted(refused);
  }

  void close() {
    Closing.close(channel);
    guests.forEach(guest -> guest.who.close());
    guests.clear();
  }
}
